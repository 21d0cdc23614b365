//! Resolves a path typed by a user to a field.

use super::table::{Field, Table};
use crate::edit_distance::{distance, nearest_step};

/// The kind or field that a path names.
#[derive(Debug, Clone)]
pub struct FieldMatch<'t> {
    pub table: &'t Table,
    /// The field; `None` when the path is the kind alone.
    pub field: Option<&'t Field>,
    /// The direct children of the field, or of the kind.
    pub children: Vec<&'t Field>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no field {asked}{}", advice(.nearest))]
pub struct NotFound {
    pub asked: String,
    /// Similar names, the closest first; empty when no kind is similar.
    pub nearest: Vec<String>,
}

fn advice(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(", ")) }
}

/// Maximum number of similar names in a message.
const SUGGESTIONS: usize = 3;

/// Finds `path`, such as `nodepool.spec.disruption`. Kinds may be written in any case and by their
/// short names, steps in any case; an annotation may be named without the word before it
/// (`nodepool.fleetwright.dev/zone-balance`).
///
/// # Errors
/// [`NotFound`] with the nearest names.
pub fn lookup<'t>(tables: &'t [Table], path: &str) -> Result<FieldMatch<'t>, NotFound> {
    let path = path.trim().trim_matches('.');
    let (kind, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(table) = tables.iter().find(|table| answers_to(table, kind)) else {
        return Err(unknown_kind(tables, path, kind));
    };
    if rest.is_empty() {
        return Ok(FieldMatch { table, field: None, children: table.children("").collect() });
    }
    let plain = rest.replace("[]", "");
    let annotation = format!("metadata.annotations.{plain}");
    match table.field(&plain).or_else(|| table.field(&annotation)) {
        Some(field) => Ok(FieldMatch { table, field: Some(field), children: table.children(&field.path).collect() }),
        None => Err(unknown_field(table, path, &plain)),
    }
}

fn answers_to(table: &Table, kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    table.kind.eq_ignore_ascii_case(&kind) || table.short_names.contains(&kind.as_str())
}

fn unknown_kind(tables: &[Table], path: &str, kind: &str) -> NotFound {
    let kinds: Vec<&str> = tables.iter().map(|table| table.kind).collect();
    let near = nearest_step(kind, &kinds).map(str::to_owned);
    NotFound { asked: path.to_owned(), nearest: near.into_iter().collect() }
}

/// Similarity is computed on the whole path and on the last step alone, so that both a typo and a
/// field in the wrong place are found.
fn unknown_field(table: &Table, path: &str, rest: &str) -> NotFound {
    let last = rest.rsplit('.').next().unwrap_or(rest);
    let whole = table.iter().map(|field| (field.path.clone(), format!("{}.{}", table.kind, field.path)));
    let steps = table.iter().map(|field| {
        let step = field.path.rsplit('.').next().unwrap_or(&field.path);
        (step.to_owned(), format!("{}.{}", table.kind, field.path))
    });
    let mut near = nearest(last, steps);
    for name in nearest(rest, whole) {
        if near.len() < SUGGESTIONS && !near.contains(&name) {
            near.push(name);
        }
    }
    NotFound { asked: path.to_owned(), nearest: near }
}

/// The names whose keys are most similar to `asked`: those within an edit distance of a third of
/// its length, else the nearest one.
fn nearest(asked: &str, names: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let asked = asked.to_ascii_lowercase();
    let mut ranked: Vec<(usize, String)> =
        names.map(|(key, name)| (distance(&asked, &key.to_ascii_lowercase()), name)).collect();
    ranked.sort();
    ranked.dedup();
    let close = ranked.iter().take_while(|(far, _)| *far <= asked.len() / 3).count();
    ranked.into_iter().take(close.clamp(1, SUGGESTIONS)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::TABLES;
    use super::*;

    fn children(path: &str) -> Vec<&'static str> {
        lookup(&TABLES, path).unwrap().children.iter().map(|field| field.path.as_str()).collect()
    }

    #[test]
    fn a_path_is_found_in_any_case_and_by_short_names() {
        for path in ["nodepool.spec.disruption", "NP.spec.Disruption", "nodepools.spec.disruption."] {
            assert_eq!(lookup(&TABLES, path).unwrap().field.unwrap().path, "spec.disruption", "{path}");
        }
        assert_eq!(lookup(&TABLES, "ec2nc").unwrap().table.kind, "EC2NodeClass");
        assert_eq!(lookup(&TABLES, "nc.status").unwrap().table.kind, "NodeClaim");
    }

    #[test]
    fn children_are_direct_and_in_order() {
        assert_eq!(
            children("nodepool.spec.disruption"),
            ["spec.disruption.consolidationPolicy", "spec.disruption.consolidateAfter", "spec.disruption.budgets"]
        );
        assert_eq!(children("nodepool"), ["metadata", "spec", "status"]);
        assert_eq!(children("np.spec.weight"), [""; 0]);
    }

    #[test]
    fn annotations_are_one_step_and_may_be_named_alone() {
        let short = lookup(&TABLES, "nodepool.fleetwright.dev/zone-balance").unwrap();
        let long = lookup(&TABLES, "np.metadata.annotations.fleetwright.dev/zone-balance").unwrap();
        assert_eq!(short.field, long.field);
        assert_eq!(children("np.metadata.annotations").len(), 16);
    }

    #[test]
    fn unknown_names_have_suggestions() {
        let slip = lookup(&TABLES, "nodepool.spec.disuption").unwrap_err();
        assert_eq!(slip.nearest[0], "NodePool.spec.disruption");
        let elsewhere = lookup(&TABLES, "nodepool.spec.requirements").unwrap_err();
        assert_eq!(elsewhere.nearest[0], "NodePool.spec.template.spec.requirements");
        let none = lookup(&TABLES, "trust").unwrap_err();
        assert_eq!(none.to_string(), "there is no field trust");
        let kind = lookup(&TABLES, "nodepol.spec").unwrap_err();
        assert_eq!(kind.to_string(), "there is no field nodepol.spec; did you mean NodePool?");
    }

    #[test]
    fn every_field_has_a_parent_and_a_meaning_and_is_unique() {
        for table in TABLES.iter() {
            let mut seen = std::collections::BTreeSet::new();
            for field in table.iter() {
                let parent = super::super::table::parent(&field.path);
                assert!(
                    parent.is_empty() || seen.contains(parent),
                    "{} {} comes before its parent",
                    table.kind,
                    field.path
                );
                assert!(seen.insert(field.path.as_str()), "{} {} occurs twice", table.kind, field.path);
                assert!(field.meaning.ends_with('.'), "{} {}", table.kind, field.path);
            }
        }
    }
}
