//! Selector terms: images, subnets, security groups, reservations, placement group.
//!
//! The rule that an id excludes other fields applies to each term of images, and elsewhere to the
//! list as a whole: one valid term makes the list valid (Karpenter: EC2NodeClass schema).

use crate::schema::part::{Entry, Part, list, map, object, one_of, text};

const MOST_TERMS: u32 = 30;

/// Tags of the selected resource; the value `*` matches any value.
fn tags() -> Entry {
    let tags = map(text()).max_entries(20).rule(
        "self.all(k, k != '' && self[k] != '')",
        "a tag of a selector needs a key and a value; the value * means that the tag exists",
    );
    ("tags", tags)
}

/// `has(x.a) || has(x.b) || …` for each of `fields`.
fn any_of(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("has(x.{field})")).collect::<Vec<_>>().join(" || ")
}

/// Adds the rule that every term has one of the fields `needed`.
fn each_with(terms: Part, needed: &[&str]) -> Part {
    terms.rule(format!("self.all(x, {})", any_of(needed)), format!("a term needs one of {}", needed.join(", ")))
}

/// Adds the rule that at least one term does not combine `alone` with one of `others`.
fn alone(terms: Part, alone: &str, others: &[&str]) -> Part {
    terms.rule(
        format!("self.size() == 0 || !self.all(x, has(x.{alone}) && ({}))", any_of(others)),
        format!("{alone} excludes the fields {}", others.join(", ")),
    )
}

/// `amiSelectorTerms`.
pub(super) fn images() -> Part {
    let term = object([
        ("alias", alias()),
        ("id", text().pattern("ami-[0-9a-z]+")),
        ("name", text()),
        ("owner", text()),
        ("ssmParameter", text()),
        tags(),
    ]);
    let terms = list(term).max_items(MOST_TERMS).with("minItems", 1.into());
    let mut terms = each_with(terms, &["tags", "id", "name", "alias", "ssmParameter"]);
    for (own, others) in [("id", ["alias", "tags", "name", "owner"]), ("alias", ["id", "tags", "name", "owner"])] {
        terms = terms.rule(
            format!("!self.exists(x, has(x.{own}) && ({}))", any_of(&others)),
            format!("{own} excludes the fields {}", others.join(", ")),
        );
    }
    terms.rule("self.size() == 1 || !self.exists(x, has(x.alias))", "an alias must be the only term")
}

/// `alias` of an image term: `family@version`.
fn alias() -> Part {
    const FAMILIES: &str = "'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'";
    text()
        .max_length(30)
        .rule("self.matches('^[a-zA-Z0-9]+@.+$')", "an alias is family@version, such as al2023@latest")
        .rule(
            format!("self.split('@')[0] in [{FAMILIES}]"),
            format!("there is no such family; allowed, in lower case: {}", FAMILIES.replace('\'', "")),
        )
        .rule(
            "!self.startsWith('windows') || self.find('@.*$') == '@latest'",
            "of the Windows families only the version latest can be had",
        )
}

/// `subnetSelectorTerms`.
pub(super) fn subnets() -> Part {
    let term = object([("id", text().pattern("subnet-[0-9a-z]+")), tags()]);
    let terms = needed(list(term).max_items(MOST_TERMS), "subnetSelectorTerms");
    alone(each_with(terms, &["tags", "id"]), "id", &["tags"])
}

/// `securityGroupSelectorTerms`.
pub(super) fn security_groups() -> Part {
    let term = object([("id", text().pattern("sg-[0-9a-z]+")), ("name", text()), tags()]);
    let terms = needed(list(term).max_items(MOST_TERMS), "securityGroupSelectorTerms");
    let terms = alone(each_with(terms, &["tags", "id", "name"]), "id", &["tags", "name"]);
    alone(terms, "name", &["tags", "id"])
}

fn needed(terms: Part, name: &str) -> Part {
    terms.rule("self.size() > 0", format!("{name} is empty; it needs at least one term"))
}

/// `capacityReservationSelectorTerms`.
pub(super) fn reservations() -> Part {
    let term = object([
        ("id", text().pattern("^cr-[0-9a-z]+$")),
        ("instanceMatchCriteria", one_of(&["open", "targeted"])),
        ("ownerID", text().pattern("^[0-9]{12}$")),
        tags(),
    ]);
    let terms = each_with(list(term).max_items(MOST_TERMS), &["tags", "id", "instanceMatchCriteria"]);
    alone(terms, "id", &["tags", "ownerID", "instanceMatchCriteria"])
}

/// `placementGroupSelector`.
pub(super) fn placement_group() -> Part {
    object([("id", text().pattern("^pg-[0-9a-z]+$")), ("name", text().min_length(1))])
        .rule("has(self.name) || has(self.id)", "name or id of the placement group is needed")
        .rule(
            "!has(self.name) || !has(self.id)",
            "name and id of the placement group exclude each other; write one of them",
        )
}
