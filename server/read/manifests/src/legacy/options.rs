//! How a conversion is done.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// The result is written: status and the API server's bookkeeping are dropped, and every field
    /// must be convertible.
    #[default]
    Convert,
    /// The result is planned: status is kept, and fields that only launches need may be missing.
    Plan,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether the result is written or planned.
    pub purpose: Purpose,
    /// Report fields that are invalid for their version as errors, even if they can be interpreted.
    pub strict: bool,
    /// IAM role of the nodes, for classes that name neither role nor instance profile.
    pub node_role: Option<String>,
    /// Instance profile of the nodes, for classes that name neither; `node_role` takes precedence.
    pub instance_profile: Option<String>,
}
