"""From a program to a network: `driver` is the list of passes, one file each."""
