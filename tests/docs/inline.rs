//! Commands inside of sentences: their programs, sub-commands and options exist.
