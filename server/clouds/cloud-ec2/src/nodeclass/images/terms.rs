//! Terms without an alias as calls of `DescribeImages`.

use std::collections::BTreeSet;

use model::Text;
use model::node_class::AmiTerm;

use super::super::filters::Filters;

/// One call of `DescribeImages`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::nodeclass) struct ImageRequest {
    pub(in crate::nodeclass) filters: Filters,
    /// `Owners`; empty means any.
    pub(in crate::nodeclass) owners: BTreeSet<Text>,
}

impl ImageRequest {
    /// The call for images with these ids, from any owner.
    pub(in crate::nodeclass) fn of_ids(ids: impl IntoIterator<Item = Text>) -> Self {
        Self { filters: Filters::new("image-id", ids), owners: BTreeSet::new() }
    }
}

/// What terms without an alias ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::nodeclass) struct ImageTerms {
    /// Ids of `id` terms.
    pub(in crate::nodeclass) ids: BTreeSet<Text>,
    /// Names of parameters that have ids.
    pub(in crate::nodeclass) parameters: BTreeSet<Text>,
    pub(in crate::nodeclass) requests: BTreeSet<ImageRequest>,
}

/// Sorts `terms` by how they are looked up. In a term, an id comes before a parameter, and both before the rest.
pub(in crate::nodeclass) fn normalise(terms: &[AmiTerm]) -> ImageTerms {
    let mut found = ImageTerms::default();
    for term in terms.iter().filter(|term| term.alias.is_none()) {
        match (&term.id, &term.ssm_parameter) {
            (Some(id), _) => drop(found.ids.insert(id.clone())),
            (None, Some(parameter)) => drop(found.parameters.insert(parameter.clone())),
            (None, None) => found.requests.extend(request(term)),
        }
    }
    found
}

/// Without an owner, an image that is selected by name must be the account's or Amazon's, since anybody may give an
/// image any name.
fn request(term: &AmiTerm) -> Option<ImageRequest> {
    let mut filters = Filters::of_tags(&term.tags);
    if let Some(name) = &term.name {
        filters = filters.with("name", name);
    }
    let owners: BTreeSet<Text> = match (&term.owner, &term.name) {
        (Some(owner), _) => [owner.clone()].into(),
        (None, Some(_)) => ["self".into(), "amazon".into()].into(),
        (None, None) => BTreeSet::new(),
    };
    let is_empty = filters == Filters::default() && owners.is_empty();
    (!is_empty).then_some(ImageRequest { filters, owners })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclass::testing::tags;

    fn term() -> AmiTerm {
        AmiTerm::default()
    }

    fn texts(values: &[&str]) -> BTreeSet<Text> {
        values.iter().map(|value| Text::from(*value)).collect()
    }

    #[test]
    fn ids_are_gathered_and_parameters_are_looked_up_first() {
        let terms = [
            AmiTerm { id: Some("ami-2".into()), ..term() },
            AmiTerm { ssm_parameter: Some("/own/image".into()), ..term() },
            AmiTerm { id: Some("ami-1".into()), ..term() },
        ];
        let found = normalise(&terms);
        assert_eq!((found.ids, found.parameters), (texts(&["ami-1", "ami-2"]), texts(&["/own/image"])));
        assert!(found.requests.is_empty());
    }

    #[test]
    fn a_name_without_owner_is_searched_in_the_account_and_at_amazon_only() {
        let owners = |term: AmiTerm| normalise(&[term]).requests.into_iter().next().unwrap().owners;
        assert_eq!(owners(AmiTerm { name: Some("my-*".into()), ..term() }), texts(&["self", "amazon"]));
        let owned = AmiTerm { name: Some("my-*".into()), owner: Some("111122223333".into()), ..term() };
        assert_eq!(owners(owned), texts(&["111122223333"]));
        assert_eq!(owners(AmiTerm { tags: tags(&[("team", "web")]), ..term() }), texts(&[]));
    }

    #[test]
    fn each_other_term_is_one_call_with_all_its_filters() {
        let terms = [
            AmiTerm { name: Some("my-*".into()), tags: tags(&[("team", "web"), ("golden", "*")]), ..term() },
            AmiTerm { owner: Some("self".into()), ..term() },
            term(),
        ];
        let shown: Vec<_> = normalise(&terms).requests.iter().map(|request| request.filters.to_string()).collect();
        assert_eq!(shown, ["", "name=my-*, tag-key=golden, tag:team=web"]);
    }
}
