"""Which signals ask a process to stop at the next step."""

import signal

STOPS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
"""SIGUSR2 is how a cluster tells of a preemption or of the time limit; where several came, the first of these counts."""
