//! From tokens to an expression. One call nests in another only for a parenthesis, and parentheses are bounded.

use super::expression::{Comparator, Literal, Node, Term};
use super::lexer::{Located, Token, syntax, tokens};
use crate::{Argument, ListError};

/// The most bytes of a filter.
pub const MAX_FILTER_BYTES: usize = 8 * 1024;

/// The most nested parentheses of a filter. They bound the recursion of everything that reads one.
pub const MAX_FILTER_DEPTH: usize = 50;

/// The most terms of a filter. They bound the work for each row.
pub const MAX_FILTER_TERMS: usize = 256;

pub(super) fn parse(text: &str) -> Result<Node, ListError> {
    if text.len() > MAX_FILTER_BYTES {
        let (argument, limit) = (Argument::Filter, MAX_FILTER_BYTES);
        return Err(ListError::TooLong { argument, length: text.len(), limit });
    }
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(Node::All(Vec::new()));
    }
    let mut parser = Parser { tokens: &tokens, end: text.chars().count() + 1, depth: 0, terms: 0 };
    let node = parser.expression()?;
    match parser.tokens.first() {
        None => Ok(node),
        Some(next) => Err(syntax(next.position, "no parenthesis is open here")),
    }
}

struct Parser<'t> {
    tokens: &'t [Located],
    /// Position after the text.
    end: usize,
    depth: usize,
    terms: usize,
}

impl<'t> Parser<'t> {
    /// Factors, with or without `AND` between them, up to a closing parenthesis or the end.
    fn expression(&mut self) -> Result<Node, ListError> {
        let mut all = vec![self.factor()?];
        while !matches!(self.peek(), None | Some(Token::Close)) {
            self.take(&Token::And);
            all.push(self.factor()?);
        }
        Ok(single(all, Node::All))
    }

    /// Terms with `OR` between them.
    fn factor(&mut self) -> Result<Node, ListError> {
        let mut any = vec![self.negatable()?];
        while self.take(&Token::Or) {
            any.push(self.negatable()?);
        }
        Ok(single(any, Node::Any))
    }

    fn negatable(&mut self) -> Result<Node, ListError> {
        if self.peek() == Some(&Token::Minus) && self.tokens.get(1).is_none_or(|next| next.spaced) {
            return Err(syntax(self.position(), "a minus sign must be directly before what it negates"));
        }
        if self.take(&Token::Not) || self.take(&Token::Minus) {
            return Ok(Node::Not(Box::new(self.simple()?)));
        }
        self.simple()
    }

    fn simple(&mut self) -> Result<Node, ListError> {
        let position = self.position();
        if !self.take(&Token::Open) {
            return self.term();
        }
        if self.depth == MAX_FILTER_DEPTH {
            return Err(ListError::TooDeep { position, limit: MAX_FILTER_DEPTH });
        }
        self.depth += 1;
        let node = self.expression()?;
        self.depth -= 1;
        if !self.take(&Token::Close) {
            return Err(syntax(position, "this parenthesis is not closed"));
        }
        Ok(node)
    }

    fn term(&mut self) -> Result<Node, ListError> {
        self.terms += 1;
        if self.terms > MAX_FILTER_TERMS {
            return Err(ListError::TooManyTerms { argument: Argument::Filter, limit: MAX_FILTER_TERMS });
        }
        let position = self.position();
        let Some(first) = self.next() else { return Err(syntax(position, "a term is expected")) };
        let Some(Token::Comparator(comparator)) = self.peek() else {
            return Ok(Node::Term(Term { position, field: None, literal: self.bare(first)? }));
        };
        self.next();
        let field = Some((field_of(first)?, *comparator));
        Ok(Node::Term(Term { position, field, literal: self.value(*comparator)? }))
    }

    /// The literal of a term without a comparator.
    fn bare(&self, first: &Located) -> Result<Literal, ListError> {
        match &first.token {
            Token::Unquoted(_) if self.tokens.first().is_some_and(|next| next.token == Token::Open && !next.spaced) => {
                Err(syntax(first.position, "functions are not supported"))
            }
            Token::Unquoted(literal) | Token::Quoted(literal) => Ok(literal.clone()),
            Token::QuotedKey(_) => Err(syntax(first.position, "an operator is expected after a field")),
            _ => Err(syntax(first.position, "a term is expected")),
        }
    }

    fn value(&mut self, comparator: Comparator) -> Result<Literal, ListError> {
        let position = self.position();
        match self.next().map(|located| &located.token) {
            Some(Token::Unquoted(literal) | Token::Quoted(literal)) => Ok(literal.clone()),
            Some(Token::Open) => Err(syntax(
                position,
                format!("one value is expected after {comparator}: repeat the field for each value"),
            )),
            _ => Err(syntax(position, format!("a value is expected after {comparator}"))),
        }
    }

    fn peek(&self) -> Option<&'t Token> {
        self.tokens.first().map(|located| &located.token)
    }

    fn position(&self) -> usize {
        self.tokens.first().map_or(self.end, |located| located.position)
    }

    fn next(&mut self) -> Option<&'t Located> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn take(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        if is_next {
            self.next();
        }
        is_next
    }
}

fn field_of(first: &Located) -> Result<String, ListError> {
    match &first.token {
        Token::QuotedKey(path) => Ok(path.clone()),
        Token::Unquoted(literal) => literal
            .plain()
            .map(str::to_owned)
            .ok_or_else(|| syntax(first.position, "the name of a field has no wildcard")),
        _ => Err(syntax(first.position, "a field is expected before an operator")),
    }
}

/// The only node, or all of them as `group`.
fn single(mut nodes: Vec<Node>, group: fn(Vec<Node>) -> Node) -> Node {
    match (nodes.len(), nodes.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            nodes.extend(last);
            group(nodes)
        }
    }
}
