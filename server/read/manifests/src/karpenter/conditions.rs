//! Status conditions.

use model::{Text, Timestamp};

use super::labels::KEY_LENGTH;
use crate::Cursor;
use crate::schema::part::{Part, fields, integer, list, moment, object, one_of_table, text};

const STATUSES: [(&str, Status); 3] = [("True", Status::True), ("False", Status::False), ("Unknown", Status::Unknown)];

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

/// The schema of `status.conditions`. `reason` and `message` are optional if `lenient`.
pub(crate) fn schema(lenient: bool) -> Part {
    const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
    let reason = text().max_length(1024);
    let reason = match lenient {
        true => reason.pattern(&format!("^({REASON}|)$")),
        false => reason.min_length(1).pattern(&format!("^{REASON}$")),
    };
    let required: &[&str] = match lenient {
        true => &["lastTransitionTime", "status", "type"],
        false => &["lastTransitionTime", "message", "reason", "status", "type"],
    };
    let condition = object(fields! {
        /// What is judged; each type occurs once.
        /// Example: Ready
        "type": text().max_length(KEY_LENGTH).pattern(CONDITION_TYPE),
        /// Whether it holds.
        /// Example: "True"
        "status": one_of_table(&STATUSES),
        /// Why, for programs.
        /// Allowed: one word
        "reason": reason,
        /// Why, for people.
        "message": text().max_length(32_768),
        /// When status, reason or message last changed. Time limits are counted from here.
        "lastTransitionTime": moment(),
        /// The generation of the object that was judged.
        "observedGeneration": integer("int64").at_least(0),
    });
    list(condition.required(required))
}

fn read_one(at: &Cursor<'_>) -> Option<Condition> {
    Some(Condition {
        name: at.at("type").text()?,
        status: at.at("status").one_of(&STATUSES)?,
        reason: at.at("reason").text().unwrap_or_default(),
        message: at.at("message").text().unwrap_or_default(),
        since: at.at("lastTransitionTime").timestamp(),
    })
}
