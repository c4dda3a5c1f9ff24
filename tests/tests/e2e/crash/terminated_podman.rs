//! SIGTERM in the middle of everything.
