#include "cli/commands/command.hpp"

int main(int argc, char** argv) { return dsanalyze::cli::run_program({argv + 1, argv + argc}); }
