//! `amiSelectorTerms`: which calls find the images, and what the answers mean.

mod alias;
mod terms;

use std::cmp::Reverse;

use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use aws_sdk_ec2::types::Image;
use model::labels::ARCH;
use model::node_class::{AmiFamily, AmiTerm, ImageEntry, Resolution};
use model::{ClusterFacts, Requirement, Requirements, Text, Timestamp};

pub(super) use alias::{AliasError, Variant, is_pinned, kubernetes_arch, variants};
pub(super) use terms::{ImageRequest, ImageTerms, normalise};

use super::conditions::{missing, unknown};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundImage {
    id: Text,
    name: Text,
    arch: &'static str,
    /// RFC 3339, in UTC: its order as text is that of time.
    created: Text,
    deprecated_at: Option<Timestamp>,
}

impl FoundImage {
    pub(super) fn id(&self) -> &Text {
        &self.id
    }
}

/// An image as EC2 describes it; `None` without id, or for an architecture that no node has.
pub(super) fn read(described: &Image) -> Option<FoundImage> {
    let at = |text: &str| DateTime::from_str(text, DateTimeFormat::DateTime).ok();
    let deprecated = described.deprecation_time().and_then(at);
    Some(FoundImage {
        id: Text::from(described.image_id()?),
        name: Text::from(described.name().unwrap_or_default()),
        arch: kubernetes_arch(described.architecture()?.as_str())?,
        created: Text::from(described.creation_date().unwrap_or_default()),
        deprecated_at: deprecated.map(|at| Timestamp::from_millis(at.secs().saturating_mul(1_000))),
    })
}

/// The images with the instance types that boot them. `variants` of an alias tell the requirements by image id; other
/// images boot every type of their architecture.
pub(super) fn entries(
    found: impl IntoIterator<Item = FoundImage>,
    variants: &[(Text, Vec<Requirements>)],
    now: Timestamp,
) -> Vec<ImageEntry> {
    let mut candidates = Vec::new();
    for image in found {
        let of_alias: Vec<Requirements> =
            variants.iter().filter(|(id, _)| *id == image.id).flat_map(|(_, sets)| sets.iter().cloned()).collect();
        let sets = if of_alias.is_empty() { vec![of_arch(image.arch)] } else { of_alias };
        candidates.extend(sets.into_iter().map(|requirements| (requirements, image.clone())));
    }
    reduce(candidates, now)
}

fn of_arch(arch: &'static str) -> Requirements {
    let mut all = Requirements::new();
    all.add(Requirement::equals(ARCH, arch));
    all
}

/// Keeps one image for each set of requirements: one that is not deprecated before one that is, then the newest, then
/// the one with the larger name. The result is sorted from new to old, then by id.
fn reduce(candidates: Vec<(Requirements, FoundImage)>, now: Timestamp) -> Vec<ImageEntry> {
    let deprecated = |image: &FoundImage| image.deprecated_at.is_some_and(|at| at < now);
    let rank =
        |image: &FoundImage| (!deprecated(image), image.created.clone(), image.name.clone(), Reverse(image.id.clone()));
    let mut kept: Vec<(Requirements, FoundImage)> = Vec::new();
    for (requirements, image) in candidates {
        match kept.iter_mut().find(|(known, _)| *known == requirements) {
            Some((_, best)) if rank(best) < rank(&image) => *best = image,
            Some(_) => {}
            None => kept.push((requirements, image)),
        }
    }
    // Sets of one image keep the order of its variants.
    kept.sort_by(|(_, a), (_, b)| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
    let entry = |(requirements, image): (Requirements, FoundImage)| ImageEntry {
        deprecated: deprecated(&image),
        id: image.id,
        name: image.name,
        requirements,
    };
    kept.into_iter().map(entry).collect()
}

/// The images that the alias among `terms` means; none without an alias.
///
/// # Errors
/// The condition that is not met because the alias has no images.
pub(super) fn alias_variants(
    terms: &[AmiTerm],
    facts: &ClusterFacts,
    cluster: &str,
) -> Result<Vec<Variant>, Resolution> {
    let mut all = Vec::new();
    for alias in terms.iter().filter_map(|term| term.alias.as_deref()) {
        let found = variants(alias, &facts.kubernetes_version);
        all.extend(found.map_err(|error| alias_condition(alias, &error, cluster))?);
    }
    Ok(all)
}

fn alias_condition(alias: &str, error: &AliasError, cluster: &str) -> Resolution {
    match error {
        AliasError::Malformed => missing(
            "UnsupportedAlias",
            format!(
                "the alias {alias:?} of spec.amiSelectorTerms is not a family and a version, such as al2023@latest"
            ),
        ),
        AliasError::Unsupported(family) => missing("UnsupportedAlias", unsupported_family(*family)),
        AliasError::NoKubernetesVersion => unknown(
            "KubernetesVersionUnknown",
            format!(
                "the images of the alias {alias} depend on the Kubernetes version, which the agent of cluster {cluster} \
                 has not reported: check that the agent runs and may reach its API server, or select images by id"
            ),
        ),
    }
}

/// Nodes of this family cannot be started by this version.
pub(super) fn unsupported_family(family: AmiFamily) -> String {
    format!(
        "the image family {} is not supported: use the family AL2023, Bottlerocket or Custom in spec.amiFamily and \
         spec.amiSelectorTerms",
        family.as_str()
    )
}

/// The condition `AMIsReady` when all calls have answers. `looked_for` names what was asked.
pub(super) fn condition(entries: &[ImageEntry], looked_for: &str, region: &str) -> Resolution {
    if !entries.is_empty() {
        return Resolution::Met;
    }
    missing(
        "AMINotFound",
        format!(
            "spec.amiSelectorTerms selects no image in region {region} ({looked_for}): correct the terms, or share the \
             images with this account"
        ),
    )
}

/// What was asked, for messages.
pub(super) fn describe(terms: &ImageTerms, variants: &[Variant]) -> String {
    let by_filters = terms.requests.iter().map(|request| {
        let owners: Vec<&str> = request.owners.iter().map(AsRef::as_ref).collect();
        match (request.filters.to_string(), owners.join(" or ")) {
            (filters, owners) if owners.is_empty() => filters,
            (filters, owners) if filters.is_empty() => format!("owner={owners}"),
            (filters, owners) => format!("{filters}, owner={owners}"),
        }
    });
    let of_variants = variants.iter().map(|variant| format!("parameter {}", variant.parameter));
    let of_terms = terms.parameters.iter().map(|name| format!("parameter {name}"));
    let ids = terms.ids.iter().map(|id| format!("id={id}"));
    let all: Vec<String> = of_variants.chain(of_terms).chain(ids).chain(by_filters).collect();
    if all.is_empty() {
        "no term with an alias, an id, a name, an owner, tags or a parameter".to_owned()
    } else {
        all.join("; ")
    }
}

#[cfg(test)]
mod tests;
