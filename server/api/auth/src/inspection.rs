//! Inspects a trust file: all its errors, and entries that are valid and yet admit nobody.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{
    AgentTrust, ClientTrust, IssuerTrust, OidcSignIn, TrustError, described, distinct, distinct_uids, suggestion,
};

/// An error or a warning, with its line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Line of the trust file, from 1.
    pub line: usize,
    /// What is wrong, and the remedy; never a value that may be a secret.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Number of valid `[[agents]]`.
    pub agents: usize,
    /// Number of valid `[[clients]]`.
    pub clients: usize,
    /// Why a server refuses the file, by line.
    pub errors: Vec<Finding>,
    /// Entries that a server accepts and that admit nobody, by line.
    pub warnings: Vec<Finding>,
}

/// Inspects the trust file at `path`. `has_client_ca` states whether the server has `listen.client-ca`.
///
/// # Errors
/// The file cannot be read.
pub fn inspect_file(path: &Path, has_client_ca: bool) -> io::Result<Inspection> {
    let text = std::fs::read_to_string(path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let missing = |file: &Path| match std::fs::File::open(folder.join(file)).err()?.kind() {
        io::ErrorKind::NotFound => Some("no such file".to_owned()),
        kind => Some(kind.to_string()),
    };
    Ok(inspect(&text, has_client_ca, missing))
}

/// Inspects `text`. `missing` returns why a file that it names cannot be read.
fn inspect(text: &str, has_client_ca: bool, missing: impl Fn(&Path) -> Option<String>) -> Inspection {
    let lines = Lines(text);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let errors = vec![lines.error(&error, 0)];
            return Inspection { errors, ..Inspection::default() };
        }
    };
    let mut found = Inspection::default();
    let agents: Vec<(usize, AgentTrust)> = entries(&root, "agents", &lines, AgentTrust::check, &mut found.errors);
    let clients: Vec<(usize, ClientTrust)> = entries(&root, "clients", &lines, ClientTrust::check, &mut found.errors);
    for (name, _) in root.get_ref() {
        if !["agents", "clients", "oidc"].contains(&name.get_ref().as_ref()) {
            let message = format!("unknown field `{}`, expected `agents`, `clients` or `oidc`", name.get_ref());
            let message = format!("{message}{}", suggestion(&message));
            found.errors.push(Finding { line: lines.at(name.span().start), message });
        }
    }
    found.errors.extend(oidc_error(&root, &lines));
    found.errors.extend(shared_identities(&agents));
    for (line, agent) in &agents {
        if agent.certificate_name.is_some() && !has_client_ca {
            let message = format!(
                "[[agents]] of cluster {:?}: certificate-name requires listen.client-ca, which is not set",
                agent.cluster
            );
            found.warnings.push(Finding { line: *line, message });
        }
    }
    let issuers = agents.iter().filter_map(|(line, agent)| Some((*line, agent.token.as_ref()?)));
    let issuers = issuers.chain(clients.iter().filter_map(|(line, client)| Some((*line, client.token.as_ref()?))));
    found.warnings.extend(issuers.flat_map(|(line, issuer)| doubts(line, issuer, &missing)));
    if agents.is_empty() && clients.is_empty() && found.errors.is_empty() {
        let message = "the file has no [[agents]] and no [[clients]]: every peer is refused".to_owned();
        found.warnings.push(Finding { line: 1, message });
    }
    (found.agents, found.clients) = (agents.len(), clients.len());
    found.errors.sort();
    found.warnings.sort();
    found
}

/// The valid entries of the array `name` with their lines; the others become errors.
fn entries<T: DeserializeOwned>(
    root: &Spanned<DeTable<'_>>,
    name: &str,
    lines: &Lines<'_>,
    check: impl Fn(&T) -> Result<(), TrustError>,
    errors: &mut Vec<Finding>,
) -> Vec<(usize, T)> {
    let Some(value) = root.get_ref().get(name) else { return Vec::new() };
    let DeValue::Array(array) = value.get_ref() else {
        let message = format!("{name} is no array of tables; write [[{name}]]");
        errors.push(Finding { line: lines.at(value.span().start), message });
        return Vec::new();
    };
    let mut valid = Vec::new();
    for entry in array.iter() {
        let line = lines.at(entry.span().start);
        let read = T::deserialize(entry.clone().into_deserializer());
        match read
            .map_err(|error| lines.error(&error, entry.span().start))
            .and_then(|read| check(&read).map(|()| read).map_err(|error| Finding { line, message: error.to_string() }))
        {
            Ok(read) => valid.push((line, read)),
            Err(error) => errors.push(error),
        }
    }
    valid
}

/// What is wrong with the table `oidc`.
fn oidc_error(root: &Spanned<DeTable<'_>>, lines: &Lines<'_>) -> Option<Finding> {
    let value = root.get_ref().get("oidc")?;
    let start = value.span().start;
    match OidcSignIn::deserialize(value.clone().into_deserializer()) {
        Ok(oidc) => oidc.check().err().map(|error| Finding { line: lines.at(start), message: error.to_string() }),
        Err(error) => Some(lines.error(&error, start)),
    }
}

/// The entries whose identity an earlier entry of another cluster has.
fn shared_identities(agents: &[(usize, AgentTrust)]) -> impl Iterator<Item = Finding> {
    let each = agents.iter().enumerate().skip(1).filter_map(|(index, (line, agent))| {
        let mut pairs = agents[..index].iter().map(|(_, earlier)| [earlier.clone(), agent.clone()]);
        let error = pairs.find_map(|pair| distinct(&pair).and_then(|()| distinct_uids(&pair)).err())?;
        Some(Finding { line: *line, message: error.to_string() })
    });
    each.collect::<Vec<_>>().into_iter()
}

/// Why no token of `issuer` is accepted.
fn doubts(line: usize, issuer: &IssuerTrust, missing: impl Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let files: [(&str, Option<&PathBuf>); 2] =
        [("jwks-file", issuer.jwks_file.as_ref()), ("ca-file", issuer.ca_file.as_ref())];
    let unreadable = files.into_iter().filter_map(|(name, file)| {
        let file = file?;
        let why = missing(file)?;
        Some(format!("{name} {}: {why}; tokens of issuer {} are refused", file.display(), issuer.issuer))
    });
    // Keys are fetched over https only.
    let is_unencrypted = issuer.jwks_file.is_none() && !issuer.issuer.starts_with("https://");
    let unencrypted = is_unencrypted.then(|| {
        format!(
            "issuer {} is no https address, and its keys are not fetched; write https://…, or set jwks-file",
            issuer.issuer
        )
    });
    unreadable.chain(unencrypted).map(|message| Finding { line, message }).collect()
}

struct Lines<'t>(&'t str);

impl Lines<'_> {
    fn at(&self, offset: usize) -> usize {
        1 + self.0.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    /// The error without the text: it may have a secret.
    fn error(&self, error: &toml::de::Error, otherwise: usize) -> Finding {
        let offset = error.span().map_or(otherwise, |span| span.start);
        Finding { line: self.at(offset), message: described(error.message()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str, has_client_ca: bool) -> [Vec<(usize, String)>; 2] {
        let missing = |file: &Path| (file == Path::new("absent.json")).then(|| "no such file".to_owned());
        let found = inspect(text, has_client_ca, missing);
        [found.errors, found.warnings].map(|found| found.into_iter().map(|each| (each.line, each.message)).collect())
    }

    #[test]
    fn every_error_of_a_file_is_found_with_its_line_and_without_secrets() {
        let text = "colour = 'red'\n\
                    [[agents]]\ncluster = 'a'\n\
                    [[clients]]\nname = 'x'\nscope = 'read'\ntoken = 'c0ffee'\n\
                    [[clients]]\nname = 'y'\nscope = 'all'\ntoken-sha256 = 'c0ffee'\n\
                    [[agents]]\ncluster = 'b'\ncertificate-name = 'a.example'\n\
                    [[agents]]\ncluster = 'c'\ncertificate-name = 'a.example'\n";
        let [errors, _] = findings(text, true);
        let expected = [
            (1, "unknown field `colour`"),
            (2, "[[agents]] of cluster \"a\": give either token"),
            (7, "a token in clear is not accepted"),
            (10, "unknown variant `all`"),
            (15, "[[agents]] of clusters \"b\" and \"c\" trust the same"),
        ];
        assert_eq!(errors.len(), expected.len(), "{errors:#?}");
        for ((line, message), (expected_line, part)) in errors.iter().zip(expected) {
            assert_eq!(*line, expected_line, "{message}");
            assert!(message.contains(part) && !message.contains("c0ffee"), "{message}");
        }
        let [errors, _] = findings("[[clients]]\nname = 'c0ffee\n", true);
        assert_eq!((errors.len(), errors[0].0), (1, 2), "{errors:?}");
        assert!(!errors[0].1.contains("c0ffee"), "{errors:?}");
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_most_similar_one_that_exists() {
        let client = "[[clients]]\nname = 'x'\nscope = 'read'\n";
        let similar = [
            ("[[agent]]\ncluster = 'a'\n".to_owned(), 1, "agents"),
            ("[[agents]]\nclustre = 'a'\n".to_owned(), 2, "cluster"),
            ("[[agents]]\ncluster = 'a'\ncertificate = 'a.example'\n".to_owned(), 3, "certificate-name"),
            ("[[agents]]\ncluster = 'a'\ntoken = { issuer = 'i', subjekt = 's' }\n".to_owned(), 3, "subject"),
            (format!("{client}token_sha256 = 'c0ffee'\n"), 4, "token-sha256"),
            (client.replace("read", "opperate"), 3, "operate"),
            ("[oidc]\nclient_id = 'x'\n".to_owned(), 2, "client-id"),
        ];
        for (text, line, name) in similar {
            let [errors, _] = findings(&text, true);
            assert_eq!((errors.len(), errors[0].0), (1, line), "{text}: {errors:?}");
            assert!(errors[0].1.ends_with(&format!("; did you mean `{name}`?")), "{text}: {errors:?}");
        }
        for (text, line) in [("colour = 'red'\n".to_owned(), 1), (format!("{client}colour = 'red'\n"), 4)] {
            let [errors, _] = findings(&text, true);
            assert_eq!((errors.len(), errors[0].0), (1, line), "{text}: {errors:?}");
            assert!(!errors[0].1.contains("did you mean"), "nothing is similar: {errors:?}");
        }
    }

    #[test]
    fn entries_that_admit_nobody_are_warnings() {
        let agent = |cluster: &str, issuer: &str, more: &str| {
            format!(
                "[[agents]]\ncluster = '{cluster}'\ntoken = {{ issuer = '{issuer}', subject = '{cluster}'{more} }}\n"
            )
        };
        let good = [
            agent("a", "https://i.example", ""),
            agent("b", "http://i.example", ", jwks-file = 'present.json'"),
            "[[agents]]\ncluster = 'c'\ncertificate-name = 'c.example'\n".to_owned(),
        ];
        assert_eq!(findings(&good.concat(), true), [vec![], vec![]]);
        let bad = [
            good[2].clone(),
            agent("d", "http://i.example", ""),
            agent("e", "https://i", ", jwks-file = 'absent.json'"),
        ];
        let [errors, warnings] = findings(&bad.concat(), false);
        assert_eq!(errors, []);
        let expected = [
            (1, "[[agents]] of cluster \"c\": certificate-name requires listen.client-ca, which is not set"),
            (
                4,
                "issuer http://i.example is no https address, and its keys are not fetched; write https://…, or set jwks-file",
            ),
            (7, "jwks-file absent.json: no such file; tokens of issuer https://i are refused"),
        ];
        assert_eq!(warnings, expected.map(|(line, message)| (line, message.to_owned())));
        let [_, warnings] = findings("# nobody yet\n", true);
        assert_eq!(warnings[0].1, "the file has no [[agents]] and no [[clients]]: every peer is refused");
    }
}
