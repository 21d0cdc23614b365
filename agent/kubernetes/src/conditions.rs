//! Conditions of an object's status in Karpenter's format: sorted by type, each with its observed
//! generation, and a root condition that aggregates its dependents.
//!
//! `lastTransitionTime` changes only with the status of a condition: timeouts are measured from it,
//! and a new reason must not restart them.

use serde_json::{Map, Value, json};

/// Conditions that `Ready` of a NodeClaim depends on (Karpenter: NodeClaim conditions).
const DEPENDENTS: [&str; 3] = ["Launched", "Registered", "Initialized"];

/// The root condition, which aggregates the others.
const READY: &str = "Ready";

/// The conditions of one object, while they are being changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    entries: Vec<Value>,
    generation: i64,
    now: String,
}

impl Conditions {
    /// The conditions of `object`, to be changed at `now` (RFC 3339, seconds).
    #[must_use]
    pub fn from_object(object: &Value, now: String) -> Self {
        let entries = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        Self { entries, generation, now }
    }

    /// Sets a condition. Returns whether its status has changed.
    pub fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) -> bool {
        let mut fields = Map::new();
        fields.insert("reason".to_owned(), json!(reason));
        fields.insert("message".to_owned(), json!(message));
        self.set_entry(kind, status, fields)
    }

    /// Sets a condition to True, with its own type as the reason.
    pub fn set_true(&mut self, kind: &str) -> bool {
        self.set(kind, "True", kind, "")
    }

    pub fn remove(&mut self, kind: &str) {
        self.entries.retain(|entry| text(entry, "type") != kind);
    }

    /// Merges entries of the server into the conditions. An entry without a status removes its
    /// condition; unnamed conditions stay.
    pub fn merge_entries(&mut self, entries: &[Value]) {
        for entry in entries {
            let (kind, status) = (text(entry, "type").to_owned(), text(entry, "status").to_owned());
            if status.is_empty() {
                self.remove(&kind);
            } else {
                self.set_entry(&kind, &status, entry.as_object().cloned().unwrap_or_default());
            }
        }
    }

    /// The status of a condition; empty without it.
    #[must_use]
    pub fn status(&self, kind: &str) -> &str {
        self.entries.iter().find(|entry| text(entry, "type") == kind).map_or("", |entry| text(entry, "status"))
    }

    /// Adds missing dependents of a NodeClaim, and sets `Ready` to their aggregate.
    pub fn aggregate_ready(&mut self) {
        for kind in DEPENDENTS {
            if self.status(kind).is_empty() {
                self.set(kind, "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation");
            }
        }
        let unmet: Vec<&str> = DEPENDENTS.into_iter().filter(|kind| self.status(kind) != "True").collect();
        if unmet.is_empty() {
            self.set(READY, "True", READY, "");
            return;
        }
        let status = if unmet.iter().any(|kind| self.status(kind) == "False") { "False" } else { "Unknown" };
        let message = unmet.iter().map(|kind| format!("{kind}={}", self.status(kind))).collect::<Vec<_>>().join(", ");
        self.set(READY, status, "UnhealthyDependents", &message);
    }

    /// The list, sorted by type.
    #[must_use]
    pub fn into_value(mut self) -> Value {
        self.entries.sort_by(|a, b| text(a, "type").cmp(text(b, "type")));
        Value::Array(self.entries)
    }

    fn set_entry(&mut self, kind: &str, status: &str, mut fields: Map<String, Value>) -> bool {
        let known = self.entries.iter().position(|entry| text(entry, "type") == kind);
        let before = known.map(|at| self.entries.remove(at)).unwrap_or_default();
        let kept = text(&before, "status") == status;
        let moment = if kept { text(&before, "lastTransitionTime").to_owned() } else { String::new() };
        let moment = if moment.is_empty() { self.now.clone() } else { moment };
        fields.insert("type".to_owned(), json!(kind));
        fields.insert("status".to_owned(), json!(status));
        fields.insert("lastTransitionTime".to_owned(), json!(moment));
        fields.entry("observedGeneration".to_owned()).or_insert_with(|| json!(self.generation));
        for required in ["reason", "message"] {
            fields.entry(required.to_owned()).or_insert_with(|| json!(""));
        }
        self.entries.push(Value::Object(fields));
        !kept
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object: &Value) -> Conditions {
        Conditions::from_object(object, "2026-01-02T00:00:00Z".to_owned())
    }

    fn launched_yesterday() -> Value {
        json!({
            "metadata": { "generation": 2 },
            "status": { "conditions": [{
                "type": "Launched", "status": "True", "reason": "Launched", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }] },
        })
    }

    #[test]
    fn an_unchanged_status_keeps_its_transition_time_and_a_changed_one_gets_the_present() {
        let mut conditions = of(&launched_yesterday());
        assert!(!conditions.set("Launched", "True", "Again", "in other words"));
        assert!(conditions.set("Registered", "Unknown", "NodeNotFound", ""));
        let list = conditions.clone().into_value();
        assert_eq!(list[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!((&list[0]["reason"], &list[0]["observedGeneration"]), (&json!("Again"), &json!(2)));
        assert_eq!(list[1]["lastTransitionTime"], "2026-01-02T00:00:00Z");
        assert!(conditions.set("Launched", "False", "Gone", ""));
        assert_eq!(conditions.into_value()[0]["lastTransitionTime"], "2026-01-02T00:00:00Z");
    }

    #[test]
    fn ready_sums_up_what_it_depends_on() {
        let mut conditions = of(&launched_yesterday());
        conditions.aggregate_ready();
        assert_eq!(conditions.status("Ready"), "Unknown");
        let ready = conditions.clone().into_value()[2].clone();
        assert_eq!(
            (&ready["reason"], &ready["message"]),
            (&json!("UnhealthyDependents"), &json!("Registered=Unknown, Initialized=Unknown"))
        );
        conditions.set("Registered", "False", "MultipleNodesFound", "");
        conditions.aggregate_ready();
        assert_eq!(conditions.status("Ready"), "False");
        conditions.set_true("Registered");
        conditions.set_true("Initialized");
        conditions.aggregate_ready();
        assert_eq!(conditions.status("Ready"), "True");
    }

    #[test]
    fn the_list_is_sorted_by_type() {
        let mut conditions = of(&json!({}));
        for kind in ["VolumesDetached", "Drained", "Launched"] {
            conditions.set_true(kind);
        }
        let kinds: Vec<String> =
            conditions.into_value().as_array().unwrap().iter().map(|one| text(one, "type").to_owned()).collect();
        assert_eq!(kinds, ["Drained", "Launched", "VolumesDetached"]);
    }

    #[test]
    fn unnamed_conditions_stay_and_emptied_ones_are_removed() {
        let mut conditions = of(&launched_yesterday());
        conditions.set_true("Consolidatable");
        conditions.merge_entries(&[
            json!({ "type": "Drifted", "status": "True", "reason": "NodePoolDrifted" }),
            json!({ "type": "Consolidatable" }),
        ]);
        let list = conditions.into_value();
        let kinds: Vec<&str> = list.as_array().unwrap().iter().map(|one| text(one, "type")).collect();
        assert_eq!(kinds, ["Drifted", "Launched"]);
        assert_eq!(list[0]["message"], "");
    }
}
