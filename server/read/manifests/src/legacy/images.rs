//! `amiFamily` and `amiSelector` become `amiSelectorTerms`, with an alias if only a family was set.

use model::node_class::AmiFamily;
use serde_json::Value;

use super::kind::ApiGeneration;
use super::record::{FIELD_OF_V1, Reporter};
use super::selectors::{self, Selector};
use super::shape::{Fields, has, join, replace_key, take, text};

const TERMS: &str = "amiSelectorTerms";
const IMAGES: Selector = Selector { old: "amiSelector", new: TERMS, example: "ami-0123456789abcdef0" };
const NAME_KEY: &str = "aws::name";
const OWNER_KEY: &str = "aws::owners";
const AL2_ENDS: &str = "AWS publishes no AL2 images from Kubernetes 1.33 on; move to al2023, whose user data has another form (NodeConfig)";
const CUSTOM_TAINT: &str =
    "with family Custom the user data must start the kubelet with the taint karpenter.sh/unregistered:NoExecute in v1";
const UBUNTU_AS_AL2: &str = "v1 has no family Ubuntu; AL2 starts its images the same way today, without promise";

/// The value of `amiFamily`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Absent,
    Ubuntu,
    Known(AmiFamily),
}

/// Converts family and terms of `spec` to v1. `version` is the pinned alias version that release
/// 1.0 annotated.
pub(super) fn tidy(
    reporter: &mut Reporter<'_, '_>,
    prefix: &str,
    spec: &mut Fields,
    age: ApiGeneration,
    version: Option<&str>,
) {
    let selected = take_terms(reporter, prefix, spec, age);
    if age == ApiGeneration::V1 {
        tidy_v1(reporter, prefix, spec, selected);
        return;
    }
    let family = family(reporter, prefix, spec);
    let path = join(prefix, "amiFamily");
    // An alias determines the family. Terms without an alias need a family, and a family without
    // terms becomes an alias.
    let (terms, family) = match (family, selected) {
        (Family::Known(family), Some(terms)) if is_alias(&terms) => {
            let same = alias_family(&terms) == Some(family);
            (terms, (family == AmiFamily::Custom && !same).then_some(family))
        }
        (_, Some(terms)) if is_alias(&terms) => (terms, None),
        (Family::Known(family), Some(terms)) => (terms, Some(family)),
        (Family::Absent, Some(terms)) => {
            reporter.note(&path, "added: AL2, the default of the old version");
            (terms, Some(AmiFamily::Al2))
        }
        (Family::Ubuntu, Some(terms)) => {
            ubuntu(reporter, prefix, spec);
            (terms, Some(AmiFamily::Al2))
        }
        (Family::Known(AmiFamily::Custom), None) => {
            reporter.refuse_launch(&path, "family Custom needs amiSelectorTerms; name the images");
            (vec![selectors::term("id", Value::from(IMAGES.example))], Some(AmiFamily::Custom))
        }
        (Family::Known(family), None) => {
            reporter.note(&path, format!("becomes the alias {}", alias(family, version)));
            (vec![alias_term(family, version)], None)
        }
        (Family::Ubuntu, None) => {
            reporter.refuse_launch(
                &path,
                "v1 finds no Ubuntu images by itself; give amiSelectorTerms with their ids or names",
            );
            ubuntu(reporter, prefix, spec);
            (vec![alias_term(AmiFamily::Al2, None)], None)
        }
        (Family::Absent, None) => {
            reporter.note(&path, "added: the alias al2@latest, the default of the old version");
            (vec![alias_term(AmiFamily::Al2, version)], None)
        }
    };
    warn(reporter, &terms, family);
    write(spec, terms, family);
}

fn warn(reporter: &mut Reporter<'_, '_>, terms: &[Value], family: Option<AmiFamily>) {
    if alias_family(terms) == Some(AmiFamily::Al2) {
        reporter.behaviour(AL2_ENDS);
    }
    if family == Some(AmiFamily::Custom) {
        reporter.behaviour(CUSTOM_TAINT);
    }
}

/// Writes both fields at the position of the old ones, the family first.
fn write(spec: &mut Fields, terms: Vec<Value>, family: Option<AmiFamily>) {
    match family {
        Some(family) => {
            replace_key(spec, "amiFamily", "amiFamily", Value::from(family.as_str()));
            replace_key(spec, IMAGES.old, TERMS, Value::Array(terms));
        }
        None => {
            let place =
                if spec.contains_key(TERMS) || spec.contains_key(IMAGES.old) { IMAGES.old } else { "amiFamily" };
            let place = if spec.contains_key(TERMS) { TERMS } else { place };
            replace_key(spec, place, TERMS, Value::Array(terms));
            spec.shift_remove("amiFamily");
        }
    }
    spec.shift_remove(IMAGES.old);
}

fn family(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &Fields) -> Family {
    let Some(written) = text(spec, "amiFamily") else { return Family::Absent };
    let known = AmiFamily::ALL.into_iter().find(|family| family.as_str() == written);
    match known {
        Some(family) => Family::Known(family),
        None if written == "Ubuntu" => Family::Ubuntu,
        None => {
            reporter.guess(
                &join(prefix, "amiFamily"),
                format!("there is no family {written}; read as AL2, which the old versions fell back to"),
                format!("there is no family {written}; write one that exists, such as AL2023"),
            );
            Family::Absent
        }
    }
}

/// Adds the root disk of Ubuntu, because a class of family AL2 has a different default.
fn ubuntu(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields) {
    reporter.behaviour(UBUNTU_AS_AL2);
    if has(spec, "blockDeviceMappings") {
        return;
    }
    let mapping = serde_json::json!([{
        "deviceName": "/dev/sda1",
        "rootVolume": true,
        "ebs": {"encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi"},
    }]);
    reporter.note(&join(prefix, "blockDeviceMappings"), "added: the default disk of family Ubuntu");
    spec.insert("blockDeviceMappings".to_owned(), mapping);
}

fn alias(family: AmiFamily, version: Option<&str>) -> String {
    format!("{}@{}", family.as_str().to_ascii_lowercase(), version.unwrap_or("latest"))
}

fn alias_term(family: AmiFamily, version: Option<&str>) -> Value {
    selectors::term("alias", Value::from(alias(family, version)))
}

fn is_alias(terms: &[Value]) -> bool {
    terms.iter().any(|term| term.get("alias").is_some_and(Value::is_string))
}

fn alias_family(terms: &[Value]) -> Option<AmiFamily> {
    let alias = terms.iter().find_map(|term| term.get("alias")?.as_str())?;
    AmiFamily::parse(alias.split('@').next()?)
}

/// The terms of `spec` in either form, as v1 terms. `spec` is unchanged.
fn take_terms(
    reporter: &mut Reporter<'_, '_>,
    prefix: &str,
    spec: &mut Fields,
    age: ApiGeneration,
) -> Option<Vec<Value>> {
    let (old_path, new_path) = (join(prefix, IMAGES.old), join(prefix, TERMS));
    if let Some(terms) = spec.get(TERMS).and_then(Value::as_array).filter(|terms| !terms.is_empty()).cloned() {
        if age == ApiGeneration::Alpha {
            reporter.guess(&new_path, "is no field of v1alpha1; read as v1 does", FIELD_OF_V1);
        }
        return Some(tidy_terms(reporter, &new_path, terms, age));
    }
    let written = spec.get(IMAGES.old).cloned().filter(|value| !value.is_null())?;
    let map = selectors::as_map(reporter, &old_path, Some(&written), &IMAGES)?;
    let terms = from_map(reporter, &old_path, &map)?;
    match age {
        ApiGeneration::Alpha => reporter.note(&old_path, "becomes amiSelectorTerms"),
        _ => reporter.guess(
            &old_path,
            "is a field of v1alpha1; becomes amiSelectorTerms",
            "is a field of v1alpha1; write amiSelectorTerms",
        ),
    }
    (!terms.is_empty()).then_some(terms)
}

/// Terms from a map: ids alone, else owners × names × tags.
fn from_map(reporter: &mut Reporter<'_, '_>, path: &str, map: &Fields) -> Option<Vec<Value>> {
    let ids = selectors::ids(reporter, path, map);
    if !ids.is_empty() {
        if map.len() > 1 {
            reporter.note(path, "only the ids are kept; the old version looked at nothing else beside them");
        }
        return selectors::bounded(reporter, path, ids.len())
            .then(|| ids.into_iter().map(|id| selectors::term("id", id.into())).collect());
    }
    let list = |reporter: &mut Reporter<'_, '_>, key: &str| {
        map.get(key).map_or_else(Vec::new, |value| selectors::split(reporter, &join(path, key), value))
    };
    let (names, owners) = (list(reporter, NAME_KEY), list(reporter, OWNER_KEY));
    let tags = selectors::tag_sets(reporter, path, map, &[NAME_KEY, OWNER_KEY])?;
    // Ids were handled first, because the old version ignored all other keys beside them.
    let by_owner_alone = !owners.is_empty() && names.is_empty() && tags.iter().all(Fields::is_empty);
    let names = if by_owner_alone { vec!["*".to_owned()] } else { names };
    if by_owner_alone {
        reporter.note(&join(path, OWNER_KEY), "an owner alone selects nothing in v1; name * is written beside it");
    }
    let count = tags.len().saturating_mul(names.len().max(1)).saturating_mul(owners.len().max(1));
    if !selectors::bounded(reporter, path, count) {
        return None;
    }
    let mut terms = Vec::with_capacity(count);
    for owner in optional(&owners) {
        for name in optional(&names) {
            terms.extend(tags.iter().map(|tags| one_term(owner, name, tags)));
        }
    }
    Some(terms)
}

fn optional(values: &[String]) -> Vec<Option<&String>> {
    if values.is_empty() { vec![None] } else { values.iter().map(Some).collect() }
}

fn one_term(owner: Option<&String>, name: Option<&String>, tags: &Fields) -> Value {
    let mut term = Fields::new();
    for (key, value) in [("name", name), ("owner", owner)] {
        term.extend(value.map(|value| (key.to_owned(), Value::from(value.as_str()))));
    }
    super::shape::put_unless_empty(&mut term, "tags", tags.clone());
    Value::Object(term)
}

/// Converts terms to v1: an id or an alias excludes other fields, and an alias is in lower case and
/// the only term.
fn tidy_terms(reporter: &mut Reporter<'_, '_>, path: &str, mut terms: Vec<Value>, age: ApiGeneration) -> Vec<Value> {
    if let Some(alias) = terms.iter().find_map(|term| term.get("alias")?.as_str().map(str::to_owned)) {
        // An alias excludes every other term, so the terms after it are not converted.
        let lower = alias.to_ascii_lowercase();
        if age != ApiGeneration::V1 {
            reporter.guess(path, "an alias is a field of v1; read as v1 does", FIELD_OF_V1);
        }
        if lower != alias {
            reporter.guess(
                path,
                format!("aliases are in lower case; {alias} is read as {lower}"),
                format!("aliases are in lower case; write {lower}"),
            );
        }
        if terms.len() > 1
            || terms[0].as_object().is_some_and(|term| term.len() > 1 && !term.contains_key("ssmParameter"))
        {
            reporter.guess(
                path,
                "an alias must be the only term and the only field; the others are ignored",
                "an alias must be the only term and the only field; remove the others",
            );
            terms = vec![selectors::term("alias", Value::from(lower))];
        } else if lower != alias {
            terms[0]["alias"] = Value::from(lower);
        }
        return terms;
    }
    if age != ApiGeneration::V1 {
        for (index, term) in
            terms.iter_mut().enumerate().filter_map(|(index, term)| Some((index, term.as_object_mut()?)))
        {
            let path = format!("{path}[{index}]");
            if has(term, "id") && term.len() > 1 {
                term.retain(|key, _| key == "id");
                reporter.note(&path, "only the id is kept, the old version looked at nothing else beside it");
            }
            selectors::note_commas(reporter, &format!("{path}.tags"), term.get("tags"));
        }
    }
    terms
}

/// Converts an object of v1: a family without terms selects its newest images; an `amiSelector` map
/// becomes terms.
fn tidy_v1(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields, selected: Option<Vec<Value>>) {
    let written =
        text(spec, "amiFamily").and_then(|name| AmiFamily::ALL.into_iter().find(|family| family.as_str() == name));
    match (selected, written) {
        (Some(terms), _) => {
            let place = if spec.contains_key(TERMS) { TERMS } else { IMAGES.old };
            replace_key(spec, place, TERMS, Value::Array(terms));
            take(spec, IMAGES.old);
        }
        (None, Some(family)) if family != AmiFamily::Custom && !has(spec, TERMS) => {
            reporter.guess(
                &join(prefix, TERMS),
                format!("missing, but required; read as the alias {}", alias(family, None)),
                format!("missing, but required; write the alias {}", alias(family, None)),
            );
            spec.insert(TERMS.to_owned(), Value::Array(vec![alias_term(family, None)]));
        }
        _ => {}
    }
}
