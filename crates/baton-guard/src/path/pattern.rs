//! Path patterns: compared component by component, with `*`, `?`, `[a-z]`, `{a,b}` and `**`.

/// A pattern of path components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// Each alternative as its components, after `{a,b}` was written out.
    alternatives: Vec<Vec<String>>,
}

/// The most alternatives that braces may make.
const ALTERNATIVES_MAX: usize = 256;

impl Pattern {
    /// Reads a pattern, which is absolute or matches from wherever it is laid on.
    pub fn new(text: &str) -> Self {
        let alternatives = braces(text);
        Self {
            text: text.to_owned(),
            alternatives: alternatives
                .iter()
                .map(|text| {
                    text.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
                })
                .collect(),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The components of which it has to meet at least one.
    pub(super) fn components(&self) -> impl Iterator<Item = &str> {
        self.alternatives.iter().flatten().map(String::as_str).filter(|component| *component != "**")
    }

    /// Whether it matches these components, or a directory above them.
    pub fn covers(&self, components: &[&str]) -> bool {
        self.alternatives.iter().any(|pattern| covers(pattern, components))
    }

    /// Whether it could match one of the paths that components with wildcards of their own stand for.
    pub fn may_cover(&self, components: &[&str]) -> bool {
        self.alternatives.iter().any(|pattern| may_cover(pattern, components))
    }
}

fn covers(pattern: &[String], components: &[&str]) -> bool {
    match (pattern.split_first(), components.split_first()) {
        (None, _) => true,
        (Some((first, rest)), _) if first == "**" => {
            // At the end it stands for what is below, not for the directory itself.
            if rest.is_empty() {
                return !components.is_empty();
            }
            (0..=components.len()).any(|skip| covers(rest, &components[skip..]))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((component, others))) => wildcard(first, component) && covers(rest, others),
    }
}

fn may_cover(pattern: &[String], components: &[&str]) -> bool {
    match (pattern.split_first(), components.split_first()) {
        (None, _) => true,
        (Some((first, rest)), _) if first == "**" => {
            if rest.is_empty() {
                return !components.is_empty();
            }
            (0..=components.len()).any(|skip| may_cover(rest, &components[skip..]))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((component, others))) => {
            (wildcard(first, component) || stands_for(component, first)) && may_cover(rest, others)
        }
    }
}

/// Whether a component with wildcards seems to be meant for a name. One that begins with a wildcard is meant for many.
fn stands_for(component: &str, name: &str) -> bool {
    let is_wild = |c: char| matches!(c, '*' | '?' | '[');
    let letters = component.chars().filter(|c| !matches!(c, '*' | '?' | '[' | ']')).count();
    component.contains(is_wild)
        && !component.starts_with('*')
        && letters >= 2
        && !name.contains(is_wild)
        && wildcard(component, name)
}

/// Whether a text matches a pattern with `*`, `?` and `[a-z]`. A leading dot is nothing special.
pub fn wildcard(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?', '[', '\\']) {
        return pattern == text;
    }
    // Most patterns of the shipped lists end with their only star.
    if let Some(prefix) = pattern.strip_suffix('*').filter(|prefix| !prefix.contains(['*', '?', '[', '\\'])) {
        return text.starts_with(prefix);
    }
    if let Some(suffix) = pattern.strip_prefix('*').filter(|suffix| !suffix.contains(['*', '?', '[', '\\'])) {
        return text.ends_with(suffix);
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p, t));
            p += 1;
            continue;
        }
        if let Some(next) = one(&pattern, p, text[t]) {
            p = next;
            t += 1;
            continue;
        }
        match retry {
            Some((star, from)) => {
                retry = Some((star, from + 1));
                p = star + 1;
                t = from + 1;
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Where the pattern goes on if the element at `at` matches one character.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match *pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => {
            let Some(length) = pattern[at + 1..].iter().skip(1).position(|c| *c == ']') else {
                return (c == '[').then_some(at + 1);
            };
            let class = &pattern[at + 1..at + 2 + length];
            let (negated, class) = match class {
                ['!' | '^', rest @ ..] => (true, rest),
                class => (false, class),
            };
            let mut found = false;
            let mut n = 0;
            while n < class.len() {
                if n + 2 < class.len() && class[n + 1] == '-' {
                    found |= (class[n]..=class[n + 2]).contains(&c);
                    n += 3;
                } else {
                    found |= class[n] == c;
                    n += 1;
                }
            }
            (found != negated).then_some(at + 3 + length)
        }
        '\\' if at + 1 < pattern.len() => (pattern[at + 1] == c).then_some(at + 2),
        literal => (literal == c).then_some(at + 1),
    }
}

/// Writes `{a,b}` out.
fn braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        let inner = text.find('{').and_then(|start| {
            let end = start + matching(&text[start..])?;
            Some((start, end))
        });
        let Some((start, end)) = inner.filter(|_| done.len() + open.len() < ALTERNATIVES_MAX) else {
            done.push(text);
            continue;
        };
        for part in split(&text[start + 1..end]) {
            open.push(format!("{}{part}{}", &text[..start], &text[end + 1..]));
        }
    }
    done
}

fn matching(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_by_component() {
        let covers = |pattern: &str, path: &str| {
            Pattern::new(pattern).covers(&path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>())
        };
        assert!(covers("secrets/**", "secrets/key.pem"));
        assert!(!covers("secrets/**", "secrets"));
        assert!(!covers("secrets/**", "secrets-not/key.pem"));
        assert!(covers("**/.env*", ".env") && covers("**/.env*", "app/.env.local"));
        assert!(covers("src", "src/main.rs") && !covers("src", "srcs/main.rs"));
        assert!(covers("a/{b,c{d,e}}/x", "a/ce/x") && !covers("a/{b,c}/x", "a/d/x"));
        assert!(covers("**/x/**/y", "x/y") && covers("**/x/**/y", "a/x/b/c/y"));
    }

    #[test]
    fn wildcards_match_within_a_component() {
        assert!(wildcard("*.rs", "main.rs") && wildcard("[a-c]?[!x]", "bzy") && wildcard("a*b*c", "aXbYc"));
        assert!(!wildcard("*.rs", "main.py") && !wildcard("[a-c]", "d") && !wildcard("a", "ab"));
        assert!(Pattern::new("home/.ssh/**").may_cover(&["home", ".s?h", "id_*"]));
        assert!(!Pattern::new("home/.ssh/**").may_cover(&["home", ".c?", "id_*"]));
    }

    #[test]
    fn hostile_patterns_end() {
        assert!(!wildcard(&"a*".repeat(50), &"a".repeat(5000).replace("aaaaa", "aaaab").replace('a', "c")));
        assert!(Pattern::new(&"{a,b}".repeat(20)).alternatives.len() <= 2 * ALTERNATIVES_MAX);
    }
}
