//! A step of removals, as a sequence of drains is judged by.

/// The pods that the removals of one step evict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvictionStep {
    /// The nodes that go, by index into the input. Their pods that are not placed again are there until then.
    pub nodes: Vec<u32>,
    /// The pods that are placed again, by index into the input, in the order in which they are bound.
    pub pods: Vec<u32>,
    /// Whether the nodes go whatever becomes of the pods, which are then counted and not judged.
    pub is_forced: bool,
}
