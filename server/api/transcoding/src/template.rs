//! Path templates: `/v1/{name=clusters/*/nodes/*}:freeze`.

use crate::percent;

/// A template: segments, the fields that capture some of them, and a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathTemplate {
    segments: Vec<Segment>,
    captures: Vec<Capture>,
    verb: Option<String>,
}

/// In the order in which a template is preferred when several match: the exact one first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal(String),
    /// `*`: one segment.
    One,
    /// `**`: all that follow, also none.
    Rest,
}

/// Segments from `first` on, which are the value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Capture {
    field_path: String,
    first: usize,
    count: usize,
}

/// A path without its verb.
pub(crate) struct RequestPath<'p> {
    segments: Vec<&'p str>,
    verb: Option<&'p str>,
}

impl<'p> RequestPath<'p> {
    /// `None` for a path that no template can have. A colon in the last segment begins a verb: in a name it is encoded.
    pub(crate) fn new(path: &'p str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let last = path.rfind('/').map_or(0, |slash| slash + 1);
        let (path, verb) = match path[last..].find(':') {
            Some(colon) => (&path[..last + colon], Some(&path[last + colon + 1..])),
            None => (path, None),
        };
        Some(Self { segments: path.split('/').collect(), verb })
    }
}

/// A captured text of a request, and its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Captured<'t> {
    pub(crate) field_path: &'t str,
    /// `None` when the text is not percent-encoded UTF-8.
    pub(crate) value: Option<String>,
}

impl PathTemplate {
    /// Parses a template; the error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let body = text.strip_prefix('/').ok_or("it must begin with a slash")?;
        let after_braces = body.rfind('}').map_or(0, |brace| brace + 1);
        let last = after_braces.max(body.rfind('/').map_or(0, |slash| slash + 1));
        let (path, verb) = match body[last..].find(':') {
            Some(colon) => (&body[..last + colon], Some(body[last + colon + 1..].to_owned())),
            None => (body, None),
        };
        let mut template = Self { segments: Vec::new(), captures: Vec::new(), verb };
        if template.verb.as_deref().is_some_and(|verb| !is_literal(verb)) {
            return Err("a verb is letters, digits and -_.~".to_owned());
        }
        let mut rest = path;
        while !rest.is_empty() {
            rest = template.read_part(rest)?;
        }
        template.check(path)
    }

    /// Reads a segment or a variable from the beginning of `text`, and the slash after it.
    fn read_part<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let (part, rest) = match text.strip_prefix('{') {
            Some(variable) => {
                let (variable, rest) = variable.split_once('}').ok_or("a brace is not closed")?;
                self.read_variable(variable)?;
                (None, rest)
            }
            None => {
                let end = text.find('/').unwrap_or(text.len());
                (Some(&text[..end]), &text[end..])
            }
        };
        if let Some(part) = part {
            self.segments.push(segment(part)?);
        }
        match rest.strip_prefix('/') {
            Some("") => Err("it ends with a slash".to_owned()),
            Some(rest) => Ok(rest),
            None if rest.is_empty() => Ok(rest),
            None => Err("a slash must be after a brace".to_owned()),
        }
    }

    fn read_variable(&mut self, variable: &str) -> Result<(), String> {
        let (field_path, segments) = variable.split_once('=').unwrap_or((variable, "*"));
        let first = self.segments.len();
        for part in segments.split('/') {
            self.segments.push(segment(part)?);
        }
        if self.captures.iter().any(|capture| capture.field_path == field_path) {
            return Err(format!("it captures {field_path} twice"));
        }
        let count = self.segments.len() - first;
        self.captures.push(Capture { field_path: field_path.to_owned(), first, count });
        Ok(())
    }

    fn check(self, path: &str) -> Result<Self, String> {
        let rest = self.segments.iter().position(|segment| *segment == Segment::Rest);
        if path.is_empty() {
            return Err("it has no segments".to_owned());
        }
        if rest.is_some_and(|at| at + 1 < self.segments.len()) {
            return Err("** must be the last segment".to_owned());
        }
        Ok(self)
    }

    /// Paths of the fields that are captured.
    pub(crate) fn field_paths(&self) -> impl Iterator<Item = &str> {
        self.captures.iter().map(|capture| capture.field_path.as_str())
    }

    /// Whether the same paths match both.
    pub(crate) fn matches_the_same(&self, other: &Self) -> bool {
        self.segments == other.segments && self.verb == other.verb
    }

    /// Whether this one is preferred where both match.
    pub(crate) fn preference(&self) -> impl Ord + use<> {
        // Of the literals only that they are literals counts.
        let kind = |segment: &Segment| match segment {
            Segment::Literal(_) => 0,
            Segment::One => 1,
            Segment::Rest => 2,
        };
        self.segments.iter().map(kind).collect::<Vec<u8>>()
    }

    /// The captured texts, if `path` matches.
    pub(crate) fn matched(&self, path: &RequestPath<'_>) -> Option<Vec<Captured<'_>>> {
        if self.verb.as_deref() != path.verb {
            return None;
        }
        let has_rest = self.segments.last() == Some(&Segment::Rest);
        let fixed = self.segments.len() - usize::from(has_rest);
        if path.segments.len() < fixed || (!has_rest && path.segments.len() > fixed) {
            return None;
        }
        let matches = |(segment, text): (&Segment, &&str)| match segment {
            Segment::Literal(literal) => percent::decode(text).as_deref() == Some(literal),
            Segment::One | Segment::Rest => !text.is_empty(),
        };
        let is_match = self.segments.iter().zip(&path.segments).all(matches);
        is_match.then(|| self.captures.iter().map(|capture| self.captured(capture, path)).collect())
    }

    fn captured<'t>(&self, capture: &'t Capture, path: &RequestPath<'_>) -> Captured<'t> {
        let end = capture.first + capture.count;
        let has_rest = self.segments.get(end - 1) == Some(&Segment::Rest);
        let texts = &path.segments[capture.first..if has_rest { path.segments.len() } else { end }];
        let value = match texts {
            // Only where one segment is the whole value can a slash in it not be mistaken for one between segments.
            [text] if capture.count == 1 && !has_rest => percent::decode(text),
            _ => {
                let decoded: Option<Vec<_>> = texts.iter().map(|text| percent::decode_all_but_slashes(text)).collect();
                decoded.map(|texts| texts.join("/"))
            }
        };
        Captured { field_path: &capture.field_path, value }
    }
}

fn segment(text: &str) -> Result<Segment, String> {
    match text {
        "*" => Ok(Segment::One),
        "**" => Ok(Segment::Rest),
        "" => Err("a segment is empty".to_owned()),
        _ if is_literal(text) => Ok(Segment::Literal(text.to_owned())),
        _ => Err(format!("the segment {text:?} is not *, ** or letters, digits and -_.~")),
    }
}

fn is_literal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
}
