#pragma once

#include "dsanalyze/core/result.hpp"

namespace dsanalyze::test {

/// Results with every field set to a value of its own, and the least that each result may hold.
ProfileResult full_profile();
ProfileResult least_profile();
WhatIfResult full_whatif();
DatasetCommandResult full_dataset_result();

}  // namespace dsanalyze::test
