"""The program, of a wheel: `dsanalyze`, and `python3 -m dsanalyze`."""
import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).resolve().parent / 'bin' / 'dsanalyze'
    if not program.exists():
        sys.exit(f'error: {program} is not there: this package was not installed by pip; run the program dsanalyze itself')
    os.execv(program, ['dsanalyze', *sys.argv[1:]])


if __name__ == '__main__':
    main()
