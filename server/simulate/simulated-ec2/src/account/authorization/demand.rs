//! A right that a call requires.

use std::collections::BTreeMap;

use crate::settings::Tags;

/// What a policy must allow for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Action, such as `ec2:CreateFleet`.
    action: String,
    /// ARN; `None` where resources are not judged.
    resource: Option<String>,
    /// Condition keys, such as `aws:RequestTag/team`.
    keys: BTreeMap<String, String>,
}

impl Demand {
    /// The right for `action` on any resource.
    pub(crate) fn any(action: impl Into<String>) -> Self {
        Self { action: action.into(), resource: None, keys: BTreeMap::new() }
    }

    /// The right for `action` on a resource.
    pub(crate) fn on(action: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { resource: Some(resource.into()), ..Self::any(action) }
    }

    /// The call gives the resource these tags.
    pub(crate) fn requests(self, tags: &Tags) -> Self {
        self.tagged("aws:RequestTag", tags)
    }

    pub(crate) fn of(self, tags: &Tags) -> Self {
        self.tagged("aws:ResourceTag", tags)
    }

    pub(crate) fn key(mut self, key: &str, value: &str) -> Self {
        self.keys.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The caller's session has these tags.
    pub(super) fn by(self, tags: &Tags) -> Self {
        self.tagged("aws:PrincipalTag", tags)
    }

    pub(super) fn action(&self) -> &str {
        &self.action
    }

    pub(super) fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    pub(super) fn keys(&self) -> &BTreeMap<String, String> {
        &self.keys
    }

    fn tagged(mut self, prefix: &str, tags: &Tags) -> Self {
        self.keys.extend(tags.iter().map(|(key, value)| (format!("{prefix}/{key}"), value.clone())));
        self
    }
}
