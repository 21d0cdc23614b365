//! Tokens of a filter.

use super::expression::{Comparator, Literal};
use crate::{Argument, ListError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Open,
    Close,
    Minus,
    And,
    Or,
    Not,
    Comparator(Comparator),
    /// Characters without quotes: a field, or a literal.
    Unquoted(Literal),
    /// A field whose last segment is in quotes.
    QuotedKey(String),
    Quoted(Literal),
}

/// A token and where it is.
#[derive(Debug, Clone)]
pub(super) struct Located {
    pub(super) token: Token,
    /// Of its first character, from 1.
    pub(super) position: usize,
    /// Whether white space is before it.
    pub(super) spaced: bool,
}

/// The tokens of `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<Located>, ListError> {
    let mut lexer = Lexer { rest: text, position: 1 };
    let mut tokens: Vec<Located> = Vec::new();
    loop {
        let before = lexer.position;
        lexer.take_while(char::is_whitespace);
        let (position, spaced) = (lexer.position, lexer.position > before);
        // On the right of a comparator, colons are a part of a timestamp and a minus sign is one of a number.
        let is_value = matches!(tokens.last(), Some(Located { token: Token::Comparator(_), .. }));
        match lexer.next(is_value)? {
            Some(token) => tokens.push(Located { token, position, spaced }),
            None => return Ok(tokens),
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    /// Of the first character of `rest`.
    position: usize,
}

impl<'t> Lexer<'t> {
    fn next(&mut self, is_value: bool) -> Result<Option<Token>, ListError> {
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            '(' => self.symbol("(", Token::Open),
            ')' => self.symbol(")", Token::Close),
            '-' if !is_value => self.symbol("-", Token::Minus),
            '"' | '\'' => Token::Quoted(self.quoted(first)?),
            _ => match self.comparator() {
                Some(comparator) => Token::Comparator(comparator),
                None => self.unquoted(is_value)?,
            },
        };
        Ok(Some(token))
    }

    fn symbol(&mut self, symbol: &str, token: Token) -> Token {
        self.rest = &self.rest[symbol.len()..];
        self.position += symbol.len();
        token
    }

    fn comparator(&mut self) -> Option<Comparator> {
        const ALL: [(&str, Comparator); 7] = [
            ("!=", Comparator::NotEqual),
            ("<=", Comparator::LessOrEqual),
            (">=", Comparator::GreaterOrEqual),
            ("=", Comparator::Equal),
            ("<", Comparator::Less),
            (">", Comparator::Greater),
            (":", Comparator::Has),
        ];
        let (symbol, comparator) = ALL.into_iter().find(|(symbol, _)| self.rest.starts_with(symbol))?;
        self.rest = &self.rest[symbol.len()..];
        self.position += symbol.len();
        Some(comparator)
    }

    fn unquoted(&mut self, is_value: bool) -> Result<Token, ListError> {
        let position = self.position;
        let word = self.take_while(|character| is_unquoted(character) || (is_value && character == ':'));
        match word {
            "" => Err(self.unexpected()),
            "AND" => Ok(Token::And),
            "OR" => Ok(Token::Or),
            "NOT" => Ok(Token::Not),
            _ => match self.rest.chars().next() {
                Some(quote @ ('"' | '\'')) if word.ends_with('.') => self.quoted_key(word, quote, position),
                _ => Ok(Token::Unquoted(Literal(word.split('*').map(str::to_owned).collect()))),
            },
        }
    }

    fn quoted_key(&mut self, prefix: &str, quote: char, position: usize) -> Result<Token, ListError> {
        let key = self.quoted(quote)?;
        match key.plain() {
            Some(key) if !prefix.contains('*') => Ok(Token::QuotedKey(format!("{prefix}{key}"))),
            _ => Err(syntax(position, "the name of a field has no wildcard: write \\* for an asterisk in a key")),
        }
    }

    /// A text in quotes, which begins with `quote`.
    fn quoted(&mut self, quote: char) -> Result<Literal, ListError> {
        let position = self.position;
        let mut parts = vec![String::new()];
        let mut is_escaped = false;
        for (index, character) in self.rest.char_indices().skip(1) {
            self.position += 1;
            match (character, parts.last_mut()) {
                (_, Some(part)) if is_escaped => {
                    is_escaped = false;
                    part.push(character);
                }
                ('\\', _) => is_escaped = true,
                ('*', _) => parts.push(String::new()),
                (_, Some(part)) if character != quote => part.push(character),
                _ => {
                    self.rest = &self.rest[index + quote.len_utf8()..];
                    self.position += 1;
                    return Ok(Literal(parts));
                }
            }
        }
        Err(syntax(position, "a quotation mark is not closed"))
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|character| !accept(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.position += taken.chars().count();
        taken
    }

    fn unexpected(&self) -> ListError {
        let character = self.rest.chars().next().unwrap_or_default();
        syntax(self.position, format!("{character:?} must be in quotes"))
    }
}

/// Whether a text with this character needs no quotes.
pub(super) fn is_unquoted(character: char) -> bool {
    !character.is_whitespace() && !character.is_control() && !"()\"'\\:=<>!,".contains(character)
}

pub(super) fn syntax(position: usize, problem: impl Into<String>) -> ListError {
    ListError::Syntax { argument: Argument::Filter, position, problem: problem.into() }
}
