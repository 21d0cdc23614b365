//! Converts selectors from maps to terms.
//!
//! Values are split at commas; an id is a separate term; all other keys are tags, one term for each
//! combination. Keys are in alphabetical order, the first one varying fastest.

use serde_json::Value;

use super::kind::ApiGeneration;
use super::record::{FIELD_OF_V1, Reporter};
use super::shape::{Fields, has, join, replace_key, scalar};

/// Maximum number of terms in v1.
const MOST_TERMS: usize = 30;
const ID_KEYS: [&str; 2] = ["aws-ids", "aws::ids"];

/// A selector of one kind of resource.
pub(super) struct Selector {
    /// Name of the field with a map.
    pub(super) old: &'static str,
    /// Name of the field in v1.
    pub(super) new: &'static str,
    /// Example of an id, for messages.
    pub(super) example: &'static str,
}

pub(super) const SUBNETS: Selector =
    Selector { old: "subnetSelector", new: "subnetSelectorTerms", example: "subnet-0123456789abcdef0" };
pub(super) const GROUPS: Selector =
    Selector { old: "securityGroupSelector", new: "securityGroupSelectorTerms", example: "sg-0123456789abcdef0" };

/// Converts subnets or groups of `spec` to v1. A missing selector is an error; a plan continues
/// with a placeholder.
pub(super) fn tidy(
    reporter: &mut Reporter<'_, '_>,
    prefix: &str,
    spec: &mut Fields,
    selector: &Selector,
    age: ApiGeneration,
) {
    let (old_path, new_path) = (join(prefix, selector.old), join(prefix, selector.new));
    if has(spec, selector.new) {
        if age == ApiGeneration::Alpha {
            reporter.guess(&new_path, "is no field of v1alpha1; read as v1 does", FIELD_OF_V1);
        }
        if spec.shift_remove(selector.old).is_some() {
            reporter.guess(
                &old_path,
                format!("ignored, {} is set too", selector.new),
                format!("{} is set too; remove this field", selector.new),
            );
        }
        tidy_terms(reporter, &new_path, spec, selector, age);
        return;
    }
    // The field of v1 takes precedence; the old field is converted only without it.
    let written = spec.get(selector.old).cloned().filter(|value| !value.is_null());
    if written.is_none() {
        if age != ApiGeneration::V1 {
            reporter.refuse_launch(&new_path, format!("missing, but required; name {} by id or tags", selector.new));
            put_placeholder(reporter, spec, selector);
        }
        return;
    }
    match as_map(reporter, &old_path, written.as_ref(), selector).and_then(|map| terms(reporter, &old_path, &map)) {
        Some(terms) => {
            note_moved(reporter, &old_path, selector, age);
            replace_key(spec, selector.old, selector.new, Value::Array(terms));
        }
        None => put_placeholder(reporter, spec, selector),
    }
}

fn note_moved(reporter: &mut Reporter<'_, '_>, path: &str, selector: &Selector, age: ApiGeneration) {
    let text = format!("becomes {}", selector.new);
    if age == ApiGeneration::Alpha {
        reporter.note(path, text)
    } else {
        reporter.guess(
            path,
            format!("is a field of v1alpha1; {text}"),
            format!("is a field of v1alpha1; write {}", selector.new),
        )
    }
}

/// Sets a placeholder for a plan, which does not need the selected resources.
fn put_placeholder(reporter: &Reporter<'_, '_>, spec: &mut Fields, selector: &Selector) {
    if reporter.plans() {
        let mut term = Fields::new();
        term.insert("id".to_owned(), Value::from(selector.example));
        replace_key(spec, selector.old, selector.new, Value::Array(vec![Value::Object(term)]));
    }
}

/// Terms of v1beta1: the name of a security group overrides tags, and v1 allows no tags beside it.
/// A comma in a tag is literal.
fn tidy_terms(reporter: &mut Reporter<'_, '_>, path: &str, spec: &mut Fields, selector: &Selector, age: ApiGeneration) {
    if age == ApiGeneration::V1 {
        return;
    }
    let terms = spec.get_mut(selector.new).and_then(Value::as_array_mut).into_iter().flatten().enumerate();
    for (index, term) in terms.filter_map(|(index, term)| Some((index, term.as_object_mut()?))) {
        let path = format!("{path}[{index}]");
        if has(term, "name") && has(term, "tags") && !has(term, "id") {
            term.shift_remove("tags");
            reporter.note(&format!("{path}.tags"), "dropped, the name beside them decides");
        }
        note_commas(reporter, &format!("{path}.tags"), term.get("tags"));
    }
}

pub(super) fn note_commas(reporter: &mut Reporter<'_, '_>, path: &str, tags: Option<&Value>) {
    let tags = tags.and_then(Value::as_object).into_iter().flatten();
    for (key, _) in tags.filter(|(_, value)| value.as_str().is_some_and(|text| text.contains(','))) {
        reporter.note(
            &join(path, key),
            "kept as it is; a comma is part of the value since v0.33, write a term for each value if a list was meant",
        );
    }
}

/// The selector as a map; a list of one map is interpreted as that map.
pub(super) fn as_map(
    reporter: &mut Reporter<'_, '_>,
    path: &str,
    value: Option<&Value>,
    selector: &Selector,
) -> Option<Fields> {
    match value? {
        Value::Object(map) => Some(map.clone()),
        Value::Array(items) if items.len() == 1 && items[0].is_object() => {
            reporter.guess(
                path,
                "a map is allowed here; read as the only map of the list",
                "found a list, allowed: a map; write its only item without the list",
            );
            items[0].as_object().cloned()
        }
        _ => {
            let message = format!(
                "found no map; write {}: [{{tags: {{key: value}}}}] or [{{id: {}}}]",
                selector.new, selector.example
            );
            reporter.refuse_launch(path, message);
            None
        }
    }
}

/// Converts a map of ids and tags to terms.
fn terms(reporter: &mut Reporter<'_, '_>, path: &str, map: &Fields) -> Option<Vec<Value>> {
    let ids = ids(reporter, path, map);
    if !ids.is_empty() {
        if map.keys().any(|key| !ID_KEYS.contains(&key.as_str())) {
            reporter.guess(
                path,
                "ids were never allowed beside tags; read as the ids alone",
                "ids are not allowed beside tags; remove the tags",
            );
        }
        return bounded(reporter, path, ids.len())
            .then(|| ids.into_iter().map(|id| term("id", Value::from(id))).collect());
    }
    let sets = tag_sets(reporter, path, map, &ID_KEYS)?;
    Some(sets.into_iter().map(|tags| term("tags", Value::Object(tags))).collect())
}

pub(super) fn ids(reporter: &mut Reporter<'_, '_>, path: &str, map: &Fields) -> Vec<String> {
    ID_KEYS
        .iter()
        .filter_map(|key| Some((*key, map.get(*key)?)))
        .flat_map(|(key, value)| split(reporter, &join(path, key), value))
        .collect()
}

pub(super) fn term(key: &str, value: Value) -> Value {
    let mut term = Fields::new();
    term.insert(key.to_owned(), value);
    Value::Object(term)
}

/// The values of a comma list.
pub(super) fn split(reporter: &mut Reporter<'_, '_>, path: &str, value: &Value) -> Vec<String> {
    let text = scalar(value).unwrap_or_default();
    if text.trim().is_empty() {
        reporter.guess(
            path,
            "an empty value is read as *, which any value matches",
            "an empty value matches nothing; write * to match any value",
        );
        return vec!["*".to_owned()];
    }
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// One map of tags for each combination of the comma lists, without the keys in `skipped`; an error
/// and `None` when there are too many.
pub(super) fn tag_sets(
    reporter: &mut Reporter<'_, '_>,
    path: &str,
    map: &Fields,
    skipped: &[&str],
) -> Option<Vec<Fields>> {
    let mut keys: Vec<&String> = map.keys().filter(|key| !skipped.contains(&key.as_str())).collect();
    keys.sort();
    let lists: Vec<(&String, Vec<String>)> =
        keys.into_iter().map(|key| (key, split(reporter, &join(path, key), &map[key]))).collect();
    let count =
        lists.iter().try_fold(1_usize, |count, (_, values)| count.checked_mul(values.len())).unwrap_or(usize::MAX);
    if !bounded(reporter, path, count) {
        return None;
    }
    let combination = |number: usize| {
        let mut rest = number;
        let mut tags = Fields::new();
        for (key, values) in &lists {
            tags.insert((*key).clone(), Value::from(values[rest % values.len()].as_str()));
            rest /= values.len();
        }
        tags
    };
    Some((0..count).map(combination).collect())
}

/// Whether v1 allows `count` terms; reports an error when not.
pub(super) fn bounded(reporter: &mut Reporter<'_, '_>, path: &str, count: usize) -> bool {
    if count > MOST_TERMS {
        reporter
            .refuse(path, format!("expands to {count} terms, allowed: at most {MOST_TERMS}; select by fewer values"));
    }
    count <= MOST_TERMS
}
