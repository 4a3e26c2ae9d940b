#!/usr/bin/env python3
"""hung_up.py COMMAND...: runs it with a SIGHUP that is blocked and pending, so that it comes as early as it can."""
import os
import signal
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
os.kill(os.getpid(), signal.SIGHUP)
os.execv(sys.argv[1], sys.argv[1:])
