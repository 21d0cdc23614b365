//! The user's file with the server that commands ask when no flag and no variable names one.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use command::exit::Failure;

/// Variable with the path of the file.
const PATH_VARIABLE: &str = "FLEETWRIGHT_CLIENT_FILE";

/// Path of the file below the folder for configuration files.
const NAME: &str = "fleetwright/client.toml";

/// A server, and what authenticates requests to it. The keys have the names of the flags.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClientFile {
    pub(super) server: Option<String>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) token_file: Option<PathBuf>,
}

impl ClientFile {
    /// The file of this user; without one, an empty one.
    ///
    /// # Errors
    /// The file is unreadable or invalid, or `FLEETWRIGHT_CLIENT_FILE` names none.
    pub(super) fn of_user() -> Result<Self, Failure> {
        match env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::read(Path::new(&path)),
            None => match default_path(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME")) {
                Some(path) if path.exists() => Self::read(&path),
                _ => Ok(Self::default()),
            },
        }
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::refused(format!("cannot read the client file {}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|(line, why)| {
            Failure::refused(format!("{}:{line}: {why}; its keys are server, ca-file and token-file", path.display()))
        })
    }

    /// Paths of `text` are relative to `folder`. The error has its line.
    fn parse(text: &str, folder: &Path) -> Result<Self, (usize, String)> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            (1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count(), error.message().replace('\n', " "))
        })?;
        let absolute = |path: PathBuf| folder.join(path);
        Ok(Self { ca_file: file.ca_file.map(absolute), token_file: file.token_file.map(absolute), ..file })
    }
}

/// Where the file is expected, as text for messages.
pub(super) fn expected_path() -> String {
    default_path(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"))
        .map_or_else(|| format!("~/.config/{NAME}"), |path| path.display().to_string())
}

/// The path by the XDG Base Directory Specification: an empty variable counts as unset.
fn default_path(config_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let named = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named(config_home).or_else(|| named(home).map(|home| home.join(".config")))?;
    Some(folder.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file() {
        let text =
            "server = \"https://fleet.example:7450\"\nca-file = \"ca.pem\"\ntoken-file = \"/run/secrets/token\"\n";
        let expected = ClientFile {
            server: Some("https://fleet.example:7450".to_owned()),
            ca_file: Some("/home/ada/.config/fleetwright/ca.pem".into()),
            token_file: Some("/run/secrets/token".into()),
        };
        assert_eq!(ClientFile::parse(text, Path::new("/home/ada/.config/fleetwright")), Ok(expected));
        assert_eq!(ClientFile::parse("# nothing yet\n", Path::new("/")), Ok(ClientFile::default()));
    }

    #[test]
    fn an_error_has_the_file_the_line_and_the_keys() {
        for (text, line, part) in [
            ("server = \"http://a:1\"\ntoken = \"x\"\n", 2, "unknown field `token`"),
            ("\n\nserver = 5\n", 3, "expected a string"),
            ("server = \"http://a:1\n", 1, ""),
        ] {
            let (found, why) = ClientFile::parse(text, Path::new("/")).unwrap_err();
            assert!(found == line && why.contains(part), "{text:?}: {found}: {why}");
        }
        let missing = ClientFile::read(Path::new("/nonexistent/client.toml")).unwrap_err();
        assert!(
            missing.messages[0].starts_with("cannot read the client file /nonexistent/client.toml: "),
            "{missing:?}"
        );
    }

    #[test]
    fn the_file_is_below_the_folder_for_configuration_files() {
        let path = |config_home: Option<&str>, home: Option<&str>| {
            default_path(config_home.map(OsString::from), home.map(OsString::from))
        };
        assert_eq!(path(Some("/etc/xdg"), Some("/home/ada")), Some("/etc/xdg/fleetwright/client.toml".into()));
        assert_eq!(path(Some(""), Some("/home/ada")), Some("/home/ada/.config/fleetwright/client.toml".into()));
        assert_eq!(path(None, None), None);
    }
}
