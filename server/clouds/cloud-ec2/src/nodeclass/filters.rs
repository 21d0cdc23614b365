//! Terms of selectors as filters of EC2's `Describe…` calls, in one order, so that equal terms make equal requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aws_sdk_ec2::types::Filter;
use model::Text;
use model::node_class::ResourceTerm;

/// Filters of one call by name and values. All of them must match, each by any of its values. Two filters may have the
/// same name: `tag-key` twice asks for both keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Filters(BTreeSet<(Text, BTreeSet<Text>)>);

impl Filters {
    pub(super) fn new(name: &str, values: impl IntoIterator<Item = Text>) -> Self {
        Self([(Text::from(name), values.into_iter().collect())].into())
    }

    /// Filters for all of these tags; the value `*` means any.
    pub(super) fn of_tags(tags: &BTreeMap<Text, Text>) -> Self {
        let of_tag = |(key, value): (&Text, &Text)| match value.as_ref() {
            "*" => (Text::from("tag-key"), BTreeSet::from([key.clone()])),
            _ => (Text::from(format!("tag:{key}")), BTreeSet::from([value.clone()])),
        };
        Self(tags.iter().map(of_tag).collect())
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert((Text::from(name), BTreeSet::from([Text::from(value)])));
        self
    }

    /// As EC2's API has them.
    pub(super) fn to_ec2(&self) -> Vec<Filter> {
        let filter = |(name, values): &(Text, BTreeSet<Text>)| {
            let values = values.iter().map(ToString::to_string).collect();
            Filter::builder().name(name.as_ref()).set_values(Some(values)).build()
        };
        self.0.iter().map(filter).collect()
    }
}

impl fmt::Display for Filters {
    /// `tag:team=web, tag-key=shared`, as messages name what was looked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, values)) in self.0.iter().enumerate() {
            let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
            write!(f, "{}{name}={}", if at == 0 { "" } else { ", " }, values.join(" or "))?;
        }
        Ok(())
    }
}

/// Names of the filters of a resource.
pub(super) struct FilterNames {
    pub(super) id: &'static str,
    /// By name, if the resource has one.
    pub(super) name: Option<&'static str>,
}

/// The requests for `terms`: one for all ids, one for all names, and one for each different set of tags. In a term, an
/// id comes before a name, and a name before tags (Karpenter AWS: subnets and security groups).
pub(super) fn requests(terms: &[ResourceTerm], names: &FilterNames) -> BTreeSet<Filters> {
    let (mut ids, mut by_name) = (BTreeSet::new(), BTreeSet::new());
    let mut requests = BTreeSet::new();
    for term in terms {
        match (&term.id, term.name.as_ref().filter(|_| names.name.is_some())) {
            (Some(id), _) => drop(ids.insert(id.clone())),
            (None, Some(name)) => drop(by_name.insert(name.clone())),
            // Without a filter, EC2 returns everything in the account.
            (None, None) if term.tags.is_empty() => {}
            (None, None) => drop(requests.insert(Filters::of_tags(&term.tags))),
        }
    }
    if !ids.is_empty() {
        requests.insert(Filters::new(names.id, ids));
    }
    if let Some(name) = names.name.filter(|_| !by_name.is_empty()) {
        requests.insert(Filters::new(name, by_name));
    }
    requests
}

/// All requests of a selector, for messages.
pub(super) fn list(requests: &BTreeSet<Filters>) -> String {
    if requests.is_empty() {
        return "no term with an id, a name or tags".to_owned();
    }
    requests.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclass::testing::{by_id, by_name, by_tags};

    const GROUPS: FilterNames = FilterNames { id: "group-id", name: Some("group-name") };
    const SUBNETS: FilterNames = FilterNames { id: "subnet-id", name: None };

    fn shown(terms: &[ResourceTerm], names: &FilterNames) -> Vec<String> {
        requests(terms, names).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ids_and_names_share_a_request_each_and_tags_have_their_own() {
        let terms = [
            by_id("sg-2"),
            by_tags(&[("team", "web"), ("shared", "*")]),
            by_name("nodes"),
            by_id("sg-1"),
            by_name("extra"),
            by_tags(&[("team", "db")]),
        ];
        assert_eq!(
            shown(&terms, &GROUPS),
            ["group-id=sg-1 or sg-2", "group-name=extra or nodes", "tag-key=shared, tag:team=web", "tag:team=db"]
        );
    }

    #[test]
    fn the_order_of_terms_does_not_change_the_requests() {
        let (a, b, c) = (by_id("subnet-1"), by_tags(&[("a", "1"), ("b", "2")]), by_id("subnet-2"));
        let forward = [a.clone(), b.clone(), c.clone()];
        assert_eq!(requests(&forward, &SUBNETS), requests(&[c, b.clone(), a, b], &SUBNETS));
    }

    #[test]
    fn an_id_excludes_name_and_tags_and_a_name_excludes_tags() {
        let id = ResourceTerm { name: Some("n".into()), ..by_id("sg-1") };
        let id = ResourceTerm { tags: by_tags(&[("a", "1")]).tags, ..id };
        let name = ResourceTerm { tags: by_tags(&[("a", "1")]).tags, ..by_name("n") };
        assert_eq!(shown(&[id, name], &GROUPS), ["group-id=sg-1", "group-name=n"]);
    }

    #[test]
    fn two_keys_with_any_value_are_two_filters() {
        let request = Filters::of_tags(&by_tags(&[("a", "*"), ("b", "*")]).tags);
        let filters: Vec<_> = request
            .to_ec2()
            .iter()
            .map(|filter| (filter.name().unwrap().to_owned(), filter.values().to_vec()))
            .collect();
        assert_eq!(filters, [("tag-key".to_owned(), vec!["a".to_owned()]), ("tag-key".into(), vec!["b".into()])]);
    }

    #[test]
    fn a_term_without_content_asks_for_nothing() {
        assert!(requests(&[ResourceTerm::default()], &GROUPS).is_empty());
    }
}
