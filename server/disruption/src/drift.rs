//! Drift: a node that does not match its NodePool or NodeClass any more.
