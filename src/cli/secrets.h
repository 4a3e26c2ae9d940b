/*
 * Passwords that a process was started with. Every process of the same user can read /proc/PID/environ and
 * /proc/PID/cmdline, the commands that an agent runs among them. So values that may hold a password are moved to where
 * only this process sees them, before anything else reads them. Called by main.c.
 */
#ifndef TEN_CLI_SECRETS_H
#define TEN_CLI_SECRETS_H

/* getenv() finds the same as before. The words that are returned are copies of argv: its own have 'x' for a password.
 * NULL: out of memory, and nothing has changed. They are never freed. */
char **ten_secrets_hide(int argc, char **argv);

#endif
