//! Texts as they stand in a file: for lines in messages, and to know which commands the author wrote.

use starlark::syntax::AstModule;
use starlark_syntax::codemap::CodeMap;
use starlark_syntax::syntax::ast::{AstExpr, AstLiteral, Expr};
use starlark_syntax::syntax::module::AstModuleFields;

/// One text of a file.
#[derive(Debug)]
pub(super) struct Literal {
    /// Where it begins, in bytes.
    pub begin: u32,
    /// Its line, from 1.
    pub line: u32,
    /// The text.
    pub text: String,
}

/// All texts of a file, in order.
pub(super) fn literals(ast: &AstModule) -> Vec<Literal> {
    let mut found = Vec::new();
    let codemap = AstModuleFields::codemap(ast);
    AstModuleFields::statement(ast).visit_expr(|expr| collect(expr, codemap, &mut found));
    found.sort_by_key(|literal| literal.begin);
    found
}

fn collect(expr: &AstExpr, codemap: &CodeMap, found: &mut Vec<Literal>) {
    if let Expr::Literal(AstLiteral::String(text)) = &expr.node {
        let line = codemap.find_line(text.span.begin());
        found.push(Literal {
            begin: text.span.begin().get(),
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            text: text.node.clone(),
        });
    }
    expr.node.visit_expr(|inner| collect(inner, codemap, found));
}
