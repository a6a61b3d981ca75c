"""The program, of a wheel: `dsanalyze`, and `python3 -m dsanalyze`."""
import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).resolve().parent / 'bin' / 'dsanalyze'
    try:
        os.execv(program, ['dsanalyze', *sys.argv[1:]])
    except OSError as error:
        sys.exit(f'error: {program}: {error.strerror}. It is there, and may be executed, where pip has installed the package; unzip keeps that, too')


if __name__ == '__main__':
    main()
