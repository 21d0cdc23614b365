//! Where a control plane comes from, in this order: a cluster that was given; binaries in the folder that
//! `KUBEBUILDER_ASSETS` names, as controller tests elsewhere use it; the Go program of this tree.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::ensure;

use super::assets::Assets;

/// Names the kubeconfig of a cluster that the tests may fill and empty as they please, such as one of kind. A plain
/// `KUBECONFIG` is never used: it may point to something that somebody needs.
pub const GIVEN: &str = "FLEETWRIGHT_E2E_KUBECONFIG";
/// Names a folder with `etcd` and `kube-apiserver`, and perhaps with `kube-scheduler` and `kube-controller-manager`.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Where a control plane comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A cluster that runs, by its kubeconfig.
    Given(PathBuf),
    /// Binaries.
    Assets(Assets),
    /// The program in `tests/control-plane`.
    OwnProgram,
}

/// The first that `environment` names.
///
/// # Errors
/// When a variable names nothing that could be used: whoever set it wants to know.
pub(super) fn find(environment: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<Source> {
    let named = |variable| environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(kubeconfig) = named(GIVEN) {
        ensure!(kubeconfig.is_file(), "{GIVEN} names {}, which is no file", kubeconfig.display());
        return Ok(Source::Given(kubeconfig));
    }
    match named(ASSETS) {
        Some(folder) => Ok(Source::Assets(Assets::in_folder(&folder)?)),
        None => Ok(Source::OwnProgram),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;

    /// A folder with programs of these names that do nothing.
    fn folder(programs: &[&str]) -> Folder {
        let folder = Folder::new();
        for program in programs {
            let _path = folder.file(program, "#!/bin/sh\n");
        }
        folder
    }

    fn found(variables: &[(&str, &str)]) -> anyhow::Result<Source> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        find(value)
    }

    #[test]
    fn a_cluster_that_is_given_comes_before_binaries_and_these_before_the_program() {
        let here = folder(&["etcd", "kube-apiserver", "kubeconfig"]);
        let (path, kubeconfig) = (here.path().display().to_string(), here.path().join("kubeconfig"));
        let given = (GIVEN, kubeconfig.to_str().unwrap());
        assert_eq!(found(&[given, (ASSETS, &path)]).unwrap(), Source::Given(kubeconfig.clone()));
        assert!(matches!(found(&[(ASSETS, &path)]).unwrap(), Source::Assets(_)));
        // Nobody's own cluster is filled and emptied by accident.
        assert_eq!(found(&[("KUBECONFIG", "/root/.kube/config")]).unwrap(), Source::OwnProgram);
        assert_eq!(found(&[(GIVEN, ""), (ASSETS, "")]).unwrap(), Source::OwnProgram);
    }

    #[test]
    fn binaries_without_a_scheduler_are_taken_and_known_to_be_less() {
        let whole = folder(&["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]);
        for (folder, is_whole) in [
            (whole, true),
            (folder(&["etcd", "kube-apiserver", "kubectl"]), false),
            (folder(&["etcd", "kube-apiserver", "kube-scheduler"]), false),
        ] {
            assert_eq!(Assets::in_folder(folder.path()).unwrap().schedules(), is_whole);
        }
    }

    #[test]
    fn what_is_named_and_cannot_be_used_is_an_error_and_nothing_else_is_tried() {
        let empty = folder(&["etcd"]);
        let path = empty.path().display().to_string();
        let error = found(&[(ASSETS, &path)]).unwrap_err().to_string();
        assert!(error.contains(ASSETS) && error.contains("kube-apiserver") && error.contains(&path), "{error}");
        let error = found(&[(GIVEN, "/nowhere"), (ASSETS, &path)]).unwrap_err().to_string();
        assert!(error.contains(GIVEN) && error.contains("/nowhere"), "{error}");
    }
}
