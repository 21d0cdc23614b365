//! Whether decisions are carried out.

/// What becomes of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They are carried out.
    #[default]
    Act,
    /// They are made and written down, and nothing is done.
    Shadow,
}

impl Mode {
    /// The mode in a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Shadow => "shadow",
        }
    }
}
