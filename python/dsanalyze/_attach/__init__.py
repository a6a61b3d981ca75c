"""The part of dsanalyze that runs inside a training script: it follows the DataLoader and tells `dsanalyze profile` what it saw."""
__path__ = [*__path__, __path__[0] + '/site']  # What sitecustomize needs, before there is a package, lies beside it.
