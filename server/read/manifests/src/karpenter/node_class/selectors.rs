//! Selector terms: images, subnets, security groups, reservations, placement group.
//!
//! The rule that an id excludes other fields applies per term for images and to the list as a whole
//! elsewhere: one valid term makes the list valid (Karpenter: EC2NodeClass schema). The parser
//! follows the schema.

use std::collections::BTreeMap;

use model::Text;
use model::node_class::{AmiTerm, ReservationTerm, ResourceTerm};

use crate::Cursor;
use crate::schema::part::{Part, fields, list, map, object, one_of_table, text};

const MATCH_CRITERIA: [(&str, ()); 2] = [("open", ()), ("targeted", ())];
const MOST_TERMS: usize = 30;
const MOST_TAGS: usize = 20;
const MOST_ALIAS_CHARACTERS: usize = 30;
const ALIAS_FAMILIES: [&str; 6] = ["al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025"];

/// The schema of tags of the selected resource; the value `*` matches any value.
fn tags_schema() -> Part {
    map(text()).max_entries(MOST_TAGS).rule(
        "self.all(k, k != '' && self[k] != '')",
        "a tag of a selector needs a key and a value; the value * means that the tag exists",
    )
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

/// The schema of `amiSelectorTerms`.
pub(super) fn images_schema() -> Part {
    let term = object(fields! {
        /// Images that AWS publishes, by family and version. With @latest nodes are replaced whenever AWS publishes.
        /// Allowed: family@version, at most 30 characters; al2, al2023, bottlerocket, windows2019, windows2022,
        /// windows2025; Windows only @latest
        /// Example: al2023@v20250620
        "alias": alias_schema(),
        /// Images with all these tags.
        /// Allowed: at most 20; no empty key or value; the value * means that the tag exists
        /// Example: {release: stable}
        "tags": tags_schema(),
        /// One image.
        /// Allowed: ami-…; excludes the other fields
        /// Example: ami-0123456789abcdef0
        "id": text().pattern("ami-[0-9a-z]+"),
        /// Images of this name.
        /// Allowed: * matches any characters
        /// Example: my-nodes-*
        "name": text(),
        /// Whose images.
        /// Default: self and amazon beside a name
        /// Allowed: an account id, self or amazon
        /// Example: self
        "owner": text(),
        /// A Systems Manager parameter that holds an image id.
        /// Example: /golden/eks/image_id
        "ssmParameter": text(),
    });
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

/// The schema of `alias` of an image term: `family@version`.
fn alias_schema() -> Part {
    text()
        .max_length(MOST_ALIAS_CHARACTERS)
        .rule("self.matches('^[a-zA-Z0-9]+@.+$')", "an alias is family@version, such as al2023@latest")
        .rule(
            format!("self.split('@')[0] in ['{}']", ALIAS_FAMILIES.join("', '")),
            format!("there is no such family; allowed, in lower case: {}", ALIAS_FAMILIES.join(", ")),
        )
        .rule(
            "!self.startsWith('windows') || self.find('@.*$') == '@latest'",
            "of the Windows families only the version latest can be had",
        )
}

/// The schema of `subnetSelectorTerms`.
pub(super) fn subnets_schema() -> Part {
    let term = object(fields! {
        /// Subnets with all these tags.
        /// Allowed: at most 20; no empty key or value; the value * means that the tag exists
        /// Example: {karpenter.sh/discovery: my-cluster}
        "tags": tags_schema(),
        /// One subnet.
        /// Allowed: subnet-…; excludes tags
        /// Example: subnet-0123456789abcdef0
        "id": text().pattern("subnet-[0-9a-z]+"),
    });
    let terms = needed(list(term).max_items(MOST_TERMS), "subnetSelectorTerms");
    alone(each_with(terms, &["tags", "id"]), "id", &["tags"])
}

/// The schema of `securityGroupSelectorTerms`.
pub(super) fn security_groups_schema() -> Part {
    let term = object(fields! {
        /// Groups with all these tags.
        /// Allowed: at most 20; no empty key or value; the value * means that the tag exists
        /// Example: {karpenter.sh/discovery: my-cluster}
        "tags": tags_schema(),
        /// One group.
        /// Allowed: sg-…; excludes tags and name
        /// Example: sg-0123456789abcdef0
        "id": text().pattern("sg-[0-9a-z]+"),
        /// Groups of this name; not the tag Name.
        /// Allowed: excludes tags and id
        /// Example: nodes
        "name": text(),
    });
    let terms = needed(list(term).max_items(MOST_TERMS), "securityGroupSelectorTerms");
    let terms = alone(each_with(terms, &["tags", "id", "name"]), "id", &["tags", "name"]);
    alone(terms, "name", &["tags", "id"])
}

fn needed(terms: Part, name: &str) -> Part {
    terms.rule("self.size() > 0", format!("{name} is empty; it needs at least one term"))
}

/// The schema of `capacityReservationSelectorTerms`.
pub(super) fn reservations_schema() -> Part {
    let term = object(fields! {
        /// Reservations with all these tags.
        /// Allowed: at most 20
        /// Example: {team: ml}
        "tags": tags_schema(),
        /// One reservation.
        /// Allowed: cr-…; excludes the other fields
        /// Example: cr-0123456789abcdef0
        "id": text().pattern("^cr-[0-9a-z]+$"),
        /// The account that owns the reservation.
        /// Allowed: twelve digits; not alone
        /// Example: "123456789012"
        "ownerID": text().pattern("^[0-9]{12}$"),
        /// Reservations with this criterion.
        /// Example: targeted
        "instanceMatchCriteria": one_of_table(&MATCH_CRITERIA),
    });
    let terms = each_with(list(term).max_items(MOST_TERMS), &["tags", "id", "instanceMatchCriteria"]);
    alone(terms, "id", &["tags", "ownerID", "instanceMatchCriteria"])
}

pub(super) fn placement_group_schema() -> Part {
    object(fields! {
        /// Name of the group.
        /// Example: low-latency
        "name": text().min_length(1),
        /// Id of the group.
        /// Allowed: pg-…
        /// Example: pg-0123456789abcdef0
        "id": text().pattern("^pg-[0-9a-z]+$"),
    })
    .rule("has(self.name) || has(self.id)", "name or id of the placement group is needed")
    .rule(
        "!has(self.name) || !has(self.id)",
        "name and id of the placement group exclude each other; write one of them",
    )
}

/// Validates every selector of `spec`.
pub(super) fn check(spec: &Cursor<'_>) {
    check_images(&spec.at("amiSelectorTerms").required());
    let subnets = spec.at("subnetSelectorTerms").required();
    check_terms(&subnets, &["tags", "id"], "subnet-", &["tags"], 1);
    let groups = spec.at("securityGroupSelectorTerms").required();
    check_terms(&groups, &["tags", "id", "name"], "sg-", &["tags", "name"], 1);
    check_alone(&groups, &groups.list(), "name", &["tags", "id"]);
    let reservations = spec.at("capacityReservationSelectorTerms");
    let others = ["tags", "ownerID", "instanceMatchCriteria"];
    check_terms(&reservations, &["tags", "id", "instanceMatchCriteria"], "cr-", &others, 0);
    for term in reservations.list() {
        check_reservation(&term);
    }
    check_placement_group(&spec.at("placementGroupSelector"));
}

/// `amiSelectorTerms`.
pub(super) fn image_terms(at: &Cursor<'_>) -> Vec<AmiTerm> {
    let read = |term: &Cursor<'_>| AmiTerm {
        alias: term.at("alias").text(),
        id: term.at("id").text(),
        name: term.at("name").text(),
        owner: term.at("owner").text(),
        tags: tags(term),
        ssm_parameter: term.at("ssmParameter").text(),
    };
    at.list().iter().map(read).collect()
}

/// `subnetSelectorTerms` or `securityGroupSelectorTerms`.
pub(super) fn resource_terms(at: &Cursor<'_>) -> Vec<ResourceTerm> {
    let read =
        |term: &Cursor<'_>| ResourceTerm { id: term.at("id").text(), name: term.at("name").text(), tags: tags(term) };
    at.list().iter().map(read).collect()
}

/// `capacityReservationSelectorTerms`.
pub(super) fn reservation_terms(at: &Cursor<'_>) -> Vec<ReservationTerm> {
    let read = |term: &Cursor<'_>| ReservationTerm {
        id: term.at("id").text(),
        owner_id: term.at("ownerID").text(),
        instance_match_criteria: term.at("instanceMatchCriteria").text(),
        tags: tags(term),
    };
    at.list().iter().map(read).collect()
}

fn tags(term: &Cursor<'_>) -> BTreeMap<Text, Text> {
    term.at("tags").string_map()
}

/// The terms at `at`; reports fewer than `least` and more than the maximum.
fn counted<'v>(at: &Cursor<'v>, least: usize) -> Vec<Cursor<'v>> {
    let mut terms = at.list();
    if at.exists() && !(least..=MOST_TERMS).contains(&terms.len()) {
        at.error(format!("{} terms, allowed: {least} to {MOST_TERMS}", terms.len()));
    }
    terms.truncate(MOST_TERMS);
    terms
}

/// Reports terms without any of the fields `needed`, ids that do not begin with `prefix`, and lists
/// in which every term combines an id with one of `others`.
fn check_terms(at: &Cursor<'_>, needed: &[&'static str], prefix: &str, others: &[&'static str], least: usize) {
    let terms = counted(at, least);
    for term in &terms {
        if !needed.iter().any(|key| term.at(key).exists()) {
            term.error(format!("a term needs one of {}", needed.join(", ")));
        }
        check_tags(&term.at("tags"));
        check_id(&term.at("id"), prefix);
    }
    check_alone(at, &terms, "id", others);
}

/// Reports lists in which every term combines the field `alone` with one of `others`.
fn check_alone(at: &Cursor<'_>, terms: &[Cursor<'_>], alone: &'static str, others: &[&'static str]) {
    let mixed = |term: &Cursor<'_>| term.at(alone).exists() && others.iter().any(|key| term.at(key).exists());
    if !terms.is_empty() && terms.iter().all(mixed) {
        at.error(format!("{alone} excludes the fields {}", others.join(", ")));
    }
}

fn check_id(at: &Cursor<'_>, prefix: &str) {
    let Some(id) = at.str() else { return };
    let rest = id.strip_prefix(prefix).unwrap_or_default();
    if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        let _: Option<()> = at.unexpected(id, &format!("an id such as {prefix}0123456789abcdef0"));
    }
}

fn check_tags(at: &Cursor<'_>) {
    let tags = at.map();
    if tags.len() > MOST_TAGS {
        at.error(format!("{} tags, allowed: at most {MOST_TAGS}", tags.len()));
    }
    for (key, value) in tags {
        if key.is_empty() || value.str() == Some("") || !value.exists() {
            value.error("a tag of a selector needs a key and a value; the value * means that the tag exists");
        }
    }
}

fn check_images(at: &Cursor<'_>) {
    const FIELDS: [&str; 5] = ["alias", "tags", "id", "name", "ssmParameter"];
    let terms = counted(at, 1);
    for term in &terms {
        if !FIELDS.iter().any(|key| term.at(key).exists()) {
            term.error(format!("a term needs one of {}", FIELDS.join(", ")));
        }
        check_tags(&term.at("tags"));
        check_id(&term.at("id"), "ami-");
        if term.at("id").exists() && ["alias", "tags", "name", "owner"].iter().any(|key| term.at(key).exists()) {
            term.error("an id excludes other fields; remove alias, tags, name and owner");
        }
        check_alias(&term.at("alias"));
        if term.at("alias").exists() {
            if ["tags", "id", "name", "owner"].iter().any(|key| term.at(key).exists()) {
                term.error("an alias excludes other fields; remove tags, id, name and owner");
            }
            if terms.len() > 1 {
                at.error("an alias must be the only term");
            }
        }
    }
}

fn check_alias(at: &Cursor<'_>) {
    let Some(alias) = at.str() else { return };
    let problem = match alias.split_once('@') {
        _ if alias.len() > MOST_ALIAS_CHARACTERS => "at most 30 characters".to_owned(),
        Some((family, version)) if ALIAS_FAMILIES.contains(&family) && version_fits(family, version) => return,
        Some((family, _)) if ALIAS_FAMILIES.contains(&family) => version_form(family).to_owned(),
        _ => format!("family@version with one of {}", ALIAS_FAMILIES.join(", ")),
    };
    let _: Option<()> = at.unexpected(alias, &problem);
}

fn version_fits(family: &str, version: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match family {
        _ if version == "latest" => true,
        "al2" | "al2023" => version.strip_prefix('v').is_some_and(|date| date.len() == 8 && digits(date)),
        "bottlerocket" => {
            let numbers: Vec<&str> = version.strip_prefix('v').unwrap_or(version).split('.').collect();
            numbers.len() == 3 && numbers.into_iter().all(digits)
        }
        _ => false,
    }
}

fn version_form(family: &str) -> &'static str {
    match family {
        "al2" | "al2023" => "version latest, or a date such as v20250620",
        "bottlerocket" => "version latest, or a number such as v1.42.0",
        _ => "version latest only, for Windows",
    }
}

fn check_reservation(term: &Cursor<'_>) {
    let _ = term.at("instanceMatchCriteria").one_of(&MATCH_CRITERIA);
    let owner_at = term.at("ownerID");
    if let Some(owner) = owner_at.str().filter(|owner| owner.len() != 12 || !owner.bytes().all(|b| b.is_ascii_digit()))
    {
        let _: Option<()> = owner_at.unexpected(owner, "an account id of twelve digits");
    }
}

fn check_placement_group(at: &Cursor<'_>) {
    if !at.exists() {
        return;
    }
    if at.at("name").exists() == at.at("id").exists() {
        at.error("allowed: exactly one of name and id");
    }
    if at.at("name").exists() {
        let _ = at.at("name").required_str();
    }
    check_id(&at.at("id"), "pg-");
}
