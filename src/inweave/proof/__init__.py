"""That a network equals its program, how sure that is, and how deep a network must be.

In reading order: `check` asks and concludes, `interface` compares what is taken and answered,
`algebra` proves, `merged` puts heads together that were taken apart, `field_check` compares program
and network at a random point, `heights` bounds how likely that misses a difference, `tables` what
is known of functions, and `certificate` is what is left behind. `diagnosis` says where a wrong
network goes wrong, `cost` how long a check takes, `floats` what rounding adds. `degree` is about
depth.
"""
