//! What was decided comes back bit for bit, and what was changed since is found and named.
