use super::*;
use crate::nodeclass::testing::{by_alias, parts};
use aws_sdk_ec2::types::ArchitectureValues;

/// 2026-01-02T03:04:05Z.
const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

struct Row<'r>(&'r str, &'r str, &'r str, &'r str, Option<&'r str>);

/// Id, name, architecture, creation, deprecation.
fn image(Row(id, name, arch, created, deprecated): Row<'_>) -> Option<FoundImage> {
    let described = Image::builder().image_id(id).name(name).architecture(ArchitectureValues::from(arch));
    read(&described.creation_date(created).set_deprecation_time(deprecated.map(str::to_owned)).build())
}

fn all(rows: Vec<Row<'_>>) -> Vec<FoundImage> {
    rows.into_iter().filter_map(image).collect()
}

fn shown(entries: &[ImageEntry]) -> Vec<(&str, bool, String)> {
    let text = |set: &Requirements| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    entries.iter().map(|entry| (&*entry.id, entry.deprecated, text(&entry.requirements))).collect()
}

const MARCH: &str = "2025-03-01T00:00:00.000Z";
const APRIL: &str = "2025-04-01T00:00:00.000Z";
const PAST: &str = "2026-01-02T03:04:04.000Z";
const FUTURE: &str = "2026-01-02T03:04:06.000Z";

#[test]
fn the_newest_image_of_each_architecture_is_kept_and_new_ones_come_first() {
    let found = all(vec![
        Row("ami-1", "a", "x86_64", MARCH, None),
        Row("ami-2", "b", "arm64", APRIL, None),
        Row("ami-3", "c", "x86_64", "2025-02-01T00:00:00.000Z", None),
        Row("ami-4", "d", "i386", APRIL, None),
    ]);
    let arch = |arch: &str| format!("kubernetes.io/arch In [{arch}]");
    assert_eq!(shown(&entries(found, &[], NOW)), [("ami-2", false, arch("arm64")), ("ami-1", false, arch("amd64"))]);
}

#[test]
fn an_older_image_is_kept_before_a_deprecated_one() {
    let found =
        || vec![Row("ami-1", "a", "x86_64", MARCH, Some(FUTURE)), Row("ami-2", "b", "x86_64", APRIL, Some(PAST))];
    let kept = entries(all(found()), &[], NOW);
    assert_eq!((&*kept[0].id, kept[0].deprecated, kept.len()), ("ami-1", false, 1));
    let kept = entries(all(found().split_off(1)), &[], NOW);
    assert_eq!((&*kept[0].id, kept[0].deprecated), ("ami-2", true));
}

#[test]
fn of_images_made_at_the_same_time_the_larger_name_is_kept() {
    let found = vec![Row("ami-1", "node-2", "x86_64", MARCH, None), Row("ami-2", "node-1", "x86_64", MARCH, None)];
    assert_eq!(&*entries(all(found), &[], NOW)[0].id, "ami-1");
}

#[test]
fn an_image_of_several_variants_has_an_entry_for_each() {
    let found = variants("bottlerocket@latest", "v1.35.0").unwrap();
    let ids = ["ami-x", "ami-x-gpu", "ami-a", "ami-a-gpu"].map(Text::from);
    let by_id: Vec<_> = ids.into_iter().zip(found.into_iter().map(|variant| variant.requirements)).collect();
    let images = vec![Row("ami-x", "x", "x86_64", MARCH, None), Row("ami-a-gpu", "a", "arm64", MARCH, None)];
    let found = entries(all(images), &by_id, NOW);
    let shown = shown(&found);
    assert_eq!(shown.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), ["ami-a-gpu", "ami-x", "ami-x"]);
    assert!(shown[0].2.starts_with("karpenter.k8s.aws/instance-gpu-count Exists"), "{shown:?}");
    assert!(shown[1].2.starts_with("karpenter.k8s.aws/instance-accelerator-count DoesNotExist"), "{shown:?}");
    assert!(shown[2].2.starts_with("karpenter.k8s.aws/instance-accelerator-count Exists"), "{shown:?}");
}

#[test]
fn an_alias_without_images_says_why() {
    let facts = |version: &str| ClusterFacts { kubernetes_version: version.into(), ..ClusterFacts::default() };
    let refused = |alias, version| alias_variants(&[by_alias(alias)], &facts(version), "c1").unwrap_err();
    let unsupported = refused("al2@latest", "v1.32.0");
    assert!(matches!(unsupported, Resolution::Missing { .. }));
    assert_eq!(parts(&unsupported).0, "UnsupportedAlias");
    assert!(parts(&unsupported).1.starts_with("the image family AL2 is not supported"), "{unsupported:?}");
    let unknown = refused("al2023@latest", "");
    assert!(matches!(unknown, Resolution::Unknown { .. }));
    assert!(parts(&unknown).1.contains("the agent of cluster c1 has not reported"), "{unknown:?}");
}

#[test]
fn an_empty_answer_names_every_query_and_the_region() {
    let terms = normalise(&[
        AmiTerm { id: Some("ami-9".into()), ..AmiTerm::default() },
        AmiTerm { name: Some("my-*".into()), ..AmiTerm::default() },
        AmiTerm { ssm_parameter: Some("/own/image".into()), ..AmiTerm::default() },
    ]);
    let unmet = condition(&[], &describe(&terms, &[]), "eu-west-1");
    let (reason, message) = parts(&unmet);
    assert_eq!(reason, "AMINotFound");
    let asked = "in region eu-west-1 (parameter /own/image; id=ami-9; name=my-*, owner=amazon or self)";
    assert!(message.contains(asked), "{message}");
}
