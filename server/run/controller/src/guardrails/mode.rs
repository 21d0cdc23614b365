//! Mode of a cluster: whether decisions take effect.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They are carried out.
    #[default]
    Act,
    /// Decisions are recorded and nothing else happens.
    Shadow,
}

impl Mode {
    /// Lower-case name, as in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Shadow => "shadow",
        }
    }
}
