//! The cause of a missing field: a field beside it that is misspelt, or that is at another level.

use crate::InputError;
use crate::edit_distance::nearest_within;
use crate::error::MISSING;

/// Maximum number of letters by which a typing error differs from the name of a field.
const TYPING_ERROR: usize = 2;

/// Adds to each error about a missing field the field of `unknown`, of the same object, that was
/// likely meant to be it.
pub(crate) fn name_misplaced(errors: &mut [InputError], unknown: &[InputError]) {
    for error in errors.iter_mut().filter(|error| error.message == MISSING) {
        let of_object = unknown.iter().filter(|field| {
            (&field.source, field.document, &field.object) == (&error.source, error.document, &error.object)
        });
        // A field of the same name comes before a misspelt one.
        let key = split(&error.path).1;
        let hints = of_object.filter_map(|field| Some((split(&field.path).1 != key, hint(&error.path, &field.path)?)));
        if let Some((_, hint)) = hints.min_by_key(|(is_misspelt, _)| *is_misspelt) {
            error.message.push_str(&hint);
        }
    }
}

/// What to write when the field at `missing` is absent and `unknown`, which does not exist, is
/// present; `None` when they are not related.
fn hint(missing: &str, unknown: &str) -> Option<String> {
    let ((place, key), (found_place, found)) = (split(missing), split(unknown));
    nearest_within((key.len() / 3).min(TYPING_ERROR), found, &[key])?;
    if place == found_place {
        return Some(format!("; {found} is no field, did you mean {key}?"));
    }
    let levels = |number: usize, direction: &str| {
        let noun = if number == 1 { "level" } else { "levels" };
        format!("; {unknown} is {number} {noun} too {direction}: write {missing}")
    };
    if let Some(below) = steps_below(found_place, place) {
        return Some(levels(below, "high"));
    }
    Some(match steps_below(place, found_place) {
        Some(above) => levels(above, "deep"),
        None => format!("; {unknown} is in the wrong place: write {missing}"),
    })
}

/// The path of the object that has the field, and the name of the field.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// How many levels `lower` is below `upper`; `None` when it is not below it.
fn steps_below(upper: &str, lower: &str) -> Option<usize> {
    let rest = if upper.is_empty() { lower } else { lower.strip_prefix(upper)?.strip_prefix('.')? };
    (!rest.is_empty()).then(|| 1 + rest.matches('.').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misplaced_field_is_named_with_the_place_where_it_belongs() {
        let hint = |missing, unknown| hint(missing, unknown).unwrap_or_default();
        assert_eq!(
            hint("spec.template.spec.requirements", "spec.template.requirements"),
            "; spec.template.requirements is 1 level too high: write spec.template.spec.requirements"
        );
        assert_eq!(
            hint("spec.template.spec.nodeClassRef", "nodeClassRef"),
            "; nodeClassRef is 3 levels too high: write spec.template.spec.nodeClassRef"
        );
        assert_eq!(
            hint("spec.containers", "spec.securityContext.containers"),
            "; spec.securityContext.containers is 1 level too deep: write spec.containers"
        );
        assert_eq!(
            hint("spec.template.spec.requirements", "spec.disruption.requirements"),
            "; spec.disruption.requirements is in the wrong place: write spec.template.spec.requirements"
        );
    }

    #[test]
    fn a_misspelt_field_is_named_and_an_unrelated_one_is_not() {
        let near = hint("spec.template.spec.nodeClassRef", "spec.template.spec.nodeclassRef");
        assert_eq!(near.as_deref(), Some("; nodeclassRef is no field, did you mean nodeClassRef?"));
        assert_eq!(hint("spec.template.spec.nodeClassRef", "spec.disruptions"), None);
    }

    #[test]
    fn only_fields_of_the_same_object_are_named() {
        let field = |object: &str, path: &str, message: &str| InputError {
            object: Some(object.to_owned()),
            path: path.to_owned(),
            ..InputError::of_document("a.yaml", 1, message)
        };
        let mut errors = [field("NodePool/a", "spec.template", MISSING)];
        name_misplaced(&mut errors, &[field("NodePool/b", "spec.tempalte", "")]);
        assert_eq!(errors[0].message, MISSING);
        name_misplaced(&mut errors, &[field("NodePool/a", "spec.tempalte", "")]);
        assert_eq!(errors[0].message, "missing, but required; tempalte is no field, did you mean template?");
        let mut errors = [field("NodePool/a", "spec.template", MISSING)];
        name_misplaced(&mut errors, &[field("NodePool/a", "spec.tempalte", ""), field("NodePool/a", "template", "")]);
        assert_eq!(errors[0].message, "missing, but required; template is 1 level too high: write spec.template");
    }
}
