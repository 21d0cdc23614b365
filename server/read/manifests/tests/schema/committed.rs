//! The files in `deploy/crds` are the output of `fleetwright crds`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use manifests::schema::definitions;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/crds")
}

#[test]
fn the_committed_files_are_what_the_program_prints() {
    for definition in definitions() {
        let path = folder().join(definition.file_name());
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == definition.to_yaml(),
            "{} differs; write it again with: fleetwright crds --directory deploy/crds",
            path.display()
        );
    }
}

#[test]
fn no_other_file_is_in_the_folder() {
    let known: BTreeSet<String> = definitions().iter().map(|definition| definition.file_name()).collect();
    let found: BTreeSet<String> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, known);
}

#[test]
fn names_are_those_under_which_the_kinds_are_known() {
    let names: Vec<String> = definitions().iter().map(|definition| definition.file_name()).collect();
    assert_eq!(
        names,
        [
            "karpenter.sh_nodepools.yaml",
            "karpenter.sh_nodeclaims.yaml",
            "karpenter.sh_nodeoverlays.yaml",
            "karpenter.k8s.aws_ec2nodeclasses.yaml"
        ]
    );
}
