//! IAM policy documents: statements with actions, resources and conditions on strings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::demand::Demand;

/// The statements of all policies of a role.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy(Vec<Statement>);

#[derive(Debug, Clone)]
struct Statement {
    is_deny: bool,
    actions: Vec<String>,
    resources: Vec<String>,
    conditions: Vec<Condition>,
}

/// The value of a key is one of these.
#[derive(Debug, Clone)]
struct Condition {
    operator: Operator,
    key: String,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// As it is; wildcards have no meaning.
    Equals,
    /// With wildcards.
    Like,
}

impl Policy {
    /// Reads documents.
    ///
    /// # Errors
    /// What is not understood: a policy must not allow or refuse less than it says.
    pub(super) fn read(documents: &[Value]) -> Result<Self, String> {
        let statements = documents.iter().flat_map(|document| list(&document["Statement"]));
        statements.map(Statement::read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a statement allows the demand, and none denies it.
    pub(super) fn allows(&self, demand: &Demand) -> bool {
        let mut of_demand = self.0.iter().filter(|statement| statement.concerns(demand)).peekable();
        of_demand.peek().is_some() && of_demand.all(|statement| !statement.is_deny)
    }
}

impl Statement {
    fn read(value: &Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("has a statement that is no object")?;
        let known = ["Sid", "Effect", "Action", "Resource", "Condition"];
        if let Some(other) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("has the element {other}, which is not simulated"));
        }
        let is_deny = match value["Effect"].as_str() {
            Some("Allow") => false,
            Some("Deny") => true,
            _ => return Err("has a statement without an effect".to_owned()),
        };
        let conditions = value["Condition"].as_object().into_iter().flatten();
        let conditions = conditions.map(|(operator, keys)| conditions_of(operator, keys));
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?.concat();
        Ok(Self { is_deny, actions: texts(&value["Action"]), resources: texts(&value["Resource"]), conditions })
    }

    fn concerns(&self, demand: &Demand) -> bool {
        let keys = demand.keys();
        let is_resource = |pattern: &String| {
            demand.resource().is_none_or(|resource| matches(pattern, resource, Operator::Like, keys))
        };
        self.actions.iter().any(|pattern| matches(pattern, demand.action(), Operator::Like, keys))
            && self.resources.iter().any(is_resource)
            && self.conditions.iter().all(|condition| condition.holds(keys))
    }
}

fn conditions_of(operator: &str, keys: &Value) -> Result<Vec<Condition>, String> {
    let operator = match operator {
        "StringEquals" => Operator::Equals,
        "StringLike" => Operator::Like,
        other => return Err(format!("has the operator {other}, which is not simulated")),
    };
    let condition = |(key, values): (&String, &Value)| Condition { operator, key: key.clone(), values: texts(values) };
    Ok(keys.as_object().into_iter().flatten().map(condition).collect())
}

impl Condition {
    fn holds(&self, keys: &BTreeMap<String, String>) -> bool {
        let Some(value) = keys.get(&self.key) else { return false };
        self.values.iter().any(|pattern| matches(pattern, value, self.operator, keys))
    }
}

/// Whether `value` has the form of `pattern`. A variable stands for exactly its value, in which wildcards have no
/// meaning; a pattern with a variable that has no value matches nothing (IAM: policy variables).
fn matches(pattern: &str, value: &str, operator: Operator, keys: &BTreeMap<String, String>) -> bool {
    parts(pattern, operator, keys).is_some_and(|parts| is_match(&parts, &value.chars().collect::<Vec<_>>()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Literal(char),
    AnyOne,
    Anything,
}

fn parts(pattern: &str, operator: Operator, keys: &BTreeMap<String, String>) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some((name, after)) = rest.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
            parts.extend(keys.get(name)?.chars().map(Part::Literal));
            rest = after;
            continue;
        }
        parts.push(match (first, operator) {
            ('*', Operator::Like) => Part::Anything,
            ('?', Operator::Like) => Part::AnyOne,
            (other, _) => Part::Literal(other),
        });
        rest = &rest[first.len_utf8()..];
    }
    Some(parts)
}

fn is_match(parts: &[Part], value: &[char]) -> bool {
    match parts.split_first() {
        None => value.is_empty(),
        Some((Part::Anything, rest)) => (0..=value.len()).any(|at| is_match(rest, &value[at..])),
        Some((Part::AnyOne, rest)) => !value.is_empty() && is_match(rest, &value[1..]),
        Some((Part::Literal(wanted), rest)) => value.first() == Some(wanted) && is_match(rest, &value[1..]),
    }
}

/// The items of an element, which may be written without a list.
fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        item => vec![item],
    }
}

fn texts(value: &Value) -> Vec<String> {
    list(value).into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn allows(statements: Value, demand: Demand) -> bool {
        Policy::read(&[json!({ "Statement": statements })]).unwrap().allows(&demand)
    }

    fn on(resource: &str, keys: &[(&str, &str)]) -> Demand {
        keys.iter().fold(Demand::on("iam:PassRole", resource), |demand, (key, value)| demand.key(key, value))
    }

    #[test]
    fn a_demand_is_allowed_by_action_and_resource() {
        let statement =
            || json!({ "Effect": "Allow", "Action": ["iam:Pass*"], "Resource": "arn:aws:iam::*:role/node-?" });
        assert!(allows(statement(), on("arn:aws:iam::1:role/node-a", &[])));
        assert!(!allows(statement(), on("arn:aws:iam::1:role/node-ab", &[])));
        assert!(!allows(statement(), Demand::on("iam:GetRole", "arn:aws:iam::1:role/node-a")));
        let denied = json!([statement(), { "Effect": "Deny", "Action": "iam:*", "Resource": "*" }]);
        assert!(!allows(denied, on("arn:aws:iam::1:role/node-a", &[])));
    }

    #[test]
    fn a_variable_stands_for_its_value_without_wildcards() {
        let statement = || json!({ "Effect": "Allow", "Action": "*", "Resource": "role/${aws:PrincipalTag/c}" });
        let tagged = |value: &'static str| [("aws:PrincipalTag/c", value)];
        assert!(allows(statement(), on("role/blue", &tagged("blue"))));
        assert!(!allows(statement(), on("role/blue-2", &tagged("blue"))));
        assert!(!allows(statement(), on("role/blue", &tagged("*"))));
        assert!(!allows(statement(), on("role/", &[])), "the variable has no value");
    }

    #[test]
    fn every_condition_must_hold_for_one_of_its_values() {
        let condition = json!({ "StringEquals": { "k": ["a", "b*"] }, "StringLike": { "l": "b*" } });
        let statement = || json!({ "Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition });
        assert!(allows(statement(), on("x", &[("k", "a"), ("l", "bc")])));
        assert!(!allows(statement(), on("x", &[("k", "bc"), ("l", "bc")])), "no wildcard in StringEquals");
        assert!(!allows(statement(), on("x", &[("k", "a"), ("l", "c")])));
        assert!(!allows(statement(), on("x", &[("k", "a")])), "a missing key");
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let unknown =
            json!({ "Effect": "Allow", "Action": "*", "Resource": "*", "Condition": { "Bool": { "k": "true" } } });
        for (statement, part) in [
            (unknown, "the operator Bool"),
            (json!({ "Effect": "Allow", "NotAction": "*", "Resource": "*" }), "the element NotAction"),
            (json!({ "Action": "*", "Resource": "*" }), "without an effect"),
        ] {
            let error = Policy::read(&[json!({ "Statement": [statement] })]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
