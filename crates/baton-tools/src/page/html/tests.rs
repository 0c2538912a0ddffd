use proptest::prelude::*;

use super::*;

fn markdown(html: &str) -> String {
    to_markdown(html, |href| {
        Some(if href.starts_with("http") { href.to_owned() } else { format!("https://x.org/{href}") })
    })
}

#[test]
fn the_usual_elements() {
    for (html, text) in [
        ("<p>One\n  two</p><p>three</p>", "One two\n\nthree"),
        ("<title>T &amp; U</title><h1>Head</h1>text", "title: T & U\n\n# Head\n\ntext"),
        ("<ul><li>a<li><p>b</p><ul><li>c</ul></ul>d", "- a\n- b\n  - c\n\nd"),
        ("<ol start=3><li>a</li><li>b</li></ol>", "3. a\n4. b"),
        ("see <a href=a/b>the <b>page</b></a>.", "see [the page](https://x.org/a/b)."),
        ("<a href='#top'>top</a> <a href='javascript:x()'>run</a> <a href=b></a>", "top run"),
        ("run <code>ls -l</code> now<code></code>", "run `ls -l` now"),
        ("<pre><code>a\n  b\n\nc</code></pre>x", "```\na\n  b\n\nc\n```\n\nx"),
        ("t<blockquote><p>a<p>b</blockquote>c", "t\n> \n> a\n> \n> b\n\nc"),
        ("<table><tr><th>A<th>B<tr><td>1<td><p>2</p></table>", "| A | B |\n|---|---|\n| 1 | 2 |"),
        ("a<br>b<hr>c", "a\nb\n\n---\n\nc"),
        ("<img src=x alt='A cat'> and <img src=y>", "[image: A cat] and"),
        ("a<script>if (a < b) '<p>'</script><style>p{}</style><!-- c -->b", "ab"),
        ("a<div hidden>x<div>y</div></div><p style='display: none'>z</p>b", "ab"),
        ("<nav><a href=a>A</a></nav>b", "b"),
        ("<nav><a href=a>A</a></nav>", "[A](https://x.org/a)"),
    ] {
        assert_eq!(markdown(html).trim_end(), text, "{html}");
    }
}

/// Each of these exhausts the stack, the memory or the patience of a converter that builds a tree.
#[test]
fn hostile_pages_do_no_harm() {
    let deep = 100_000;
    for open in
        ["<div>", "<ul><li>", "<blockquote>", "<table><tr><td>", "<a href=x>", "<pre>", "<code>", "<h1>", "<nav>"]
    {
        let html = format!("{}x", open.repeat(deep / 5));
        let text = markdown(&html);
        assert!(text.len() <= 4 * html.len() && text.contains('x'), "{open}: {}", text.len());
    }
    let html = format!("{}x{}", "<div>".repeat(deep), "</div>".repeat(deep));
    assert_eq!(markdown(&html), "x");
    assert_eq!(markdown(&format!("<p {}>x", "a b=c ".repeat(deep))), "x");
    assert_eq!(markdown(&"&lt;".repeat(deep)).len(), deep);
}

#[test]
fn links_that_grow_are_bounded() {
    let base = "y".repeat(400);
    let text = to_markdown(&"<a href=a>x</a>".repeat(300_000), |href| Some(format!("{base}{href}")));
    assert!(text.len() <= TEXT_BYTES_MAX + 1_000, "{}", text.len());
}

proptest! {
    #[test]
    fn any_soup_is_taken(html in "(<[/]?(p|div|ul|ol|li|a href=x|pre|code|td|tr|table|h2|nav|title|blockquote|script)>|[a-z \n&;<]){0,60}") {
        let text = markdown(&html);
        prop_assert!(text.len() <= 30 * html.len() + 100);
    }
}
