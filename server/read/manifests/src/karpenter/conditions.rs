//! Status conditions.

use model::{Text, Timestamp};

use crate::Cursor;

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    True,
    False,
    /// The condition is not determined yet.
    Unknown,
}

impl Status {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// One entry of `status.conditions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub name: Text,
    /// `status`.
    pub status: Status,
    /// `reason`, empty when absent.
    pub reason: Text,
    /// `message`, empty when absent.
    pub message: Text,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// Reads the list at `at`, usually `status.conditions`. A condition with another status is
    /// reported.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Self {
        Self(at.list().iter().filter_map(read_one).collect())
    }

    /// The conditions, as listed.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// The condition of type `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.name.as_ref() == name)
    }

    /// Whether `name` is present and True.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|condition| condition.status == Status::True)
    }

    /// The reason and message of `name`; `None` when it is absent or True.
    #[must_use]
    pub fn failure(&self, name: &str) -> Option<String> {
        let condition = self.get(name).filter(|condition| condition.status != Status::True)?;
        let status = condition.status.as_str();
        let because = [&condition.reason, &condition.message].map(Text::as_ref);
        let because: Vec<&str> = because.into_iter().filter(|part| !part.is_empty()).collect();
        let separator = if because.is_empty() { "" } else { ": " };
        Some(format!("its condition {name} is {status}{separator}{}", because.join(": ")))
    }
}

fn read_one(at: &Cursor<'_>) -> Option<Condition> {
    const STATUSES: [(&str, Status); 3] =
        [("True", Status::True), ("False", Status::False), ("Unknown", Status::Unknown)];
    Some(Condition {
        name: at.at("type").text()?,
        status: at.at("status").one_of(&STATUSES)?,
        reason: at.at("reason").text().unwrap_or_default(),
        message: at.at("message").text().unwrap_or_default(),
        since: at.at("lastTransitionTime").timestamp(),
    })
}
