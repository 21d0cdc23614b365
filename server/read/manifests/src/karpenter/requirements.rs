//! Requirement entries: `{key, operator, values, minValues}`.

use model::labels::{CAPACITY_TYPE, NODECLASS, NODEPOOL, canonical_key};
use model::{Operator, Requirement, Text};

use super::labels::{KEY_LENGTH, QUALIFIED_NAME, RESTRICTED_DOMAINS, domain_refusal, is_refused, key_problem, outside};
use crate::Cursor;
use crate::edit_distance::nearest_within;
use crate::schema::part::{Part, atomic, fields, object, one_of, plain_integer, text};
use crate::syntax::is_label_value;

/// Maximum number of entries of a list.
const MOST: usize = 100;
/// Maximum of `minValues`.
const MOST_MIN_VALUES: i64 = 50;

/// The values of `karpenter.sh/capacity-type`.
const CAPACITY_TYPES: [&str; 3] = ["on-demand", "reserved", "spot"];

/// The kind whose list is parsed; the rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A NodePool: `karpenter.sh/nodepool` is rejected.
    NodePool,
    /// A NodeClaim: `karpenter.sh/nodepool` is allowed.
    NodeClaim,
    /// A NodeOverlay: `minValues` is rejected, and `NotIn` requires values.
    NodeOverlay,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedRequirements {
    /// The entries, in order.
    pub requirements: Vec<Requirement>,
    /// The reason why Karpenter's own validation rejects the list although the API server accepts
    /// it.
    pub invalid: Option<String>,
}

/// The schema of `requirements` of `owner`.
pub(crate) fn schema(owner: Owner) -> Part {
    let mut fields = fields! {
        /// The node label that is constrained.
        /// Allowed: a label key of at most 316 characters
        /// Example: karpenter.k8s.aws/instance-family
        "key": key_schema(owner),
        /// How the label is compared with the values. Gt, Lt, Gte and Lte compare integers and take exactly one.
        /// Example: In
        "operator": one_of(&Operator::ALL.map(Operator::as_str)),
        /// What the label is compared with.
        /// Allowed: label values; In needs at least one
        /// Example: [c7g, m7g]
        "values": atomic(text()),
    };
    if owner != Owner::NodeOverlay {
        fields.extend(fields! {
            /// A launch must leave the cloud the choice among at least this many different values of the label.
            /// Default: 1
            /// Allowed: 1 to 50; with In at most the number of values
            /// Example: 5
            "minValues": plain_integer().between(1, MOST_MIN_VALUES),
        });
    }
    let requirements = atomic(object(fields).required(&["key", "operator"]))
        .max_items(MOST)
        .rule("self.all(x, x.operator != 'In' || (has(x.values) && x.values.size() > 0))", "operator In needs at least one value")
        .rule(
            "self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0))",
            "operators Gt, Lt, Gte and Lte take exactly one integer of 0 or more, in quotes",
        );
    match owner {
        Owner::NodeOverlay => requirements.rule(
            "self.all(x, x.operator != 'NotIn' || (has(x.values) && x.values.size() > 0))",
            "operator NotIn needs at least one value",
        ),
        Owner::NodePool | Owner::NodeClaim => requirements.rule(
            "self.all(x, x.operator != 'In' || !has(x.minValues) || (has(x.values) && x.values.size() >= x.minValues))",
            "minValues is greater than the number of values",
        ),
    }
}

fn key_schema(owner: Owner) -> Part {
    let mut key = text().max_length(KEY_LENGTH).pattern(QUALIFIED_NAME);
    for domain in RESTRICTED_DOMAINS {
        key = key.rule(outside("self", domain), domain_refusal(domain));
    }
    let key = key
        .rule("self != 'kubernetes.io/hostname'", "kubernetes.io/hostname cannot be required: every node has its own");
    match owner {
        Owner::NodePool => key
            .rule("self != 'karpenter.sh/nodepool'", "karpenter.sh/nodepool cannot be required: it is the pool itself"),
        Owner::NodeClaim | Owner::NodeOverlay => key,
    }
}

/// Parses the list at `at`, which is required but may be empty.
#[must_use]
pub fn read(at: &Cursor<'_>, owner: Owner) -> ParsedRequirements {
    let entries = at.clone().required().list();
    if entries.len() > MOST {
        at.error(format!("{} requirements, allowed: at most {MOST}", entries.len()));
    }
    let mut listed = ParsedRequirements::default();
    for entry in entries.iter().take(MOST) {
        if let Some((requirement, invalid)) = read_one(entry, owner) {
            listed.requirements.push(requirement);
            listed.invalid = listed.invalid.or(invalid);
        }
    }
    listed
}

/// Parses one entry, with the reason why Karpenter's own validation rejects it.
fn read_one(at: &Cursor<'_>, owner: Owner) -> Option<(Requirement, Option<String>)> {
    let key = read_key(&at.at("key"), owner);
    let operator_at = at.at("operator");
    let values = at.at("values").strings();
    let name = operator_at.required_str()?;
    let names = Operator::ALL.map(Operator::as_str);
    let operator = Operator::parse(name).or_else(|| operator_at.unexpected_word(name, &names))?;
    check_values(&at.at("values"), operator, &values, owner)?;
    let min_values = read_min_values(&at.at("minValues"), operator, values.len(), owner);
    let key = key?;
    let invalid = class_required(key, owner).or_else(|| invalid_values(key, operator, &values, min_values));
    let requirement = Requirement::new(key, operator, values.into_iter().map(Text::from));
    Some((requirement.with_min_values(min_values), invalid))
}

fn read_key<'v>(at: &Cursor<'v>, owner: Owner) -> Option<&'v str> {
    let key = at.required_str()?;
    if key.len() > KEY_LENGTH {
        return at.unexpected(key, &format!("at most {KEY_LENGTH} characters"));
    }
    if let Some(problem) = key_problem(key) {
        return at.unexpected(key, problem);
    }
    if is_refused(key) || (key == NODEPOOL && owner == Owner::NodePool) {
        return at.unexpected(
            key,
            "any key that is not Karpenter's own; of karpenter.sh and karpenter.k8s.aws only the well-known ones",
        );
    }
    Some(key)
}

fn check_values(at: &Cursor<'_>, operator: Operator, values: &[&str], owner: Owner) -> Option<()> {
    let needs_values = operator == Operator::In || (operator == Operator::NotIn && owner == Owner::NodeOverlay);
    if needs_values && values.is_empty() {
        at.error(format!("operator {} needs at least one value", operator.as_str()));
        return None;
    }
    let bound = matches!(operator, Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte);
    let integer = |value: &&str| value.bytes().all(|b| b.is_ascii_digit()) && value.parse::<i64>().is_ok();
    if bound && !(values.len() == 1 && values.iter().all(integer)) {
        let message = format!("operator {} takes exactly one integer of 0 or more, in quotes", operator.as_str());
        return at.unexpected(&values.join(", "), &message);
    }
    Some(())
}

fn read_min_values(at: &Cursor<'_>, operator: Operator, values: usize, owner: Owner) -> Option<u32> {
    if owner == Owner::NodeOverlay && at.exists() {
        at.error("minValues is not allowed in a NodeOverlay");
        return None;
    }
    let least = at.int_within(1, MOST_MIN_VALUES)?;
    if operator == Operator::In && usize::try_from(least).is_ok_and(|least| least > values) {
        at.error(format!("found {least}, allowed: at most the number of values, which is {values}"));
        return None;
    }
    u32::try_from(least).ok()
}

/// The error for a requirement on the class label, which only a NodeClaim may have.
fn class_required(key: &str, owner: Owner) -> Option<String> {
    let refused = key == NODECLASS && owner != Owner::NodeClaim;
    refused.then(|| format!("requirement {key}: the class is named by nodeClassRef and cannot be required"))
}

/// The reason why Karpenter's validation rejects values that the API server accepts: invalid label
/// values and unknown capacity types.
fn invalid_values(key: &str, operator: Operator, values: &[&str], min_values: Option<u32>) -> Option<String> {
    if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
        return Some(format!("requirement {key}: {value:?} cannot be the value of a label"));
    }
    if canonical_key(key) != CAPACITY_TYPE || operator != Operator::In {
        return None;
    }
    let known = values.iter().filter(|value| CAPACITY_TYPES.contains(value)).count();
    let wanted = min_values.and_then(|least| usize::try_from(least).ok()).unwrap_or(1);
    (known < wanted).then(|| match unknown_capacity_type(values) {
        Some(problem) => format!("requirement {key}: {problem}"),
        None => format!("requirement {key}: minValues is {wanted}, but {values:?} has {known}"),
    })
}

/// The first of `values` that is no capacity type, and what may have been meant.
fn unknown_capacity_type(values: &[&str]) -> Option<String> {
    let unknown = values.iter().find(|value| !CAPACITY_TYPES.contains(value))?;
    let meant = nearest_within(unknown.len() / 2, unknown, &CAPACITY_TYPES).map(|near| format!("did you mean {near}?"));
    let hint = meant.unwrap_or_else(|| format!("allowed: {}", CAPACITY_TYPES.join(", ")));
    Some(format!("{unknown:?} is no capacity type; {hint}"))
}
