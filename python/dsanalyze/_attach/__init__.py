"""The part of dsanalyze that runs inside a training script: it follows the DataLoader and tells `dsanalyze profile` what it saw."""
