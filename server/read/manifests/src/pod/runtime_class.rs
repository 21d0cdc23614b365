//! RuntimeClasses: what they add to the pods that name them.

use model::{Labels, Resources, Text, Toleration};

use super::tolerations;
use crate::{Cursor, syntax};

#[derive(Debug, Default)]
pub struct RuntimeClass {
    pub name: Text,
    /// `overhead.podFixed`.
    pub overhead: Resources,
    pub node_selector: Labels,
    pub tolerations: Vec<Toleration>,
}

impl RuntimeClass {
    /// Reads the RuntimeClass `name` at `at`.
    #[must_use]
    pub fn read(name: Text, at: &Cursor<'_>) -> Self {
        let scheduling = at.at("scheduling");
        Self {
            name,
            overhead: at.at("overhead").at("podFixed").resources(),
            node_selector: syntax::labels(&scheduling.at("nodeSelector")),
            tolerations: tolerations::read(&scheduling.at("tolerations")),
        }
    }
}
