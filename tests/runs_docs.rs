//! The pages for people who write workflows are played from top to bottom.

use std::path::Path;

use crate::support::{World, git, workspace_root};

/// A block of code on a page: its language, its text, and the file that the text before it names.
struct Block {
    language: String,
    text: String,
    file: Option<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open, mut before) = (Vec::new(), None::<Block>, String::new());
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                // The last word in backticks of a paragraph that ends with a colon.
                let named = before.trim_end().ends_with(':').then(|| before.rsplit('`').nth(1).map(str::to_owned));
                open = Some(Block { language: language.to_owned(), text: String::new(), file: named.flatten() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) if line.is_empty() => {}
            (None, None) => line.clone_into(&mut before),
        }
    }
    blocks
}

#[test]
fn the_first_workflow_can_be_written_as_the_page_says() {
    let page = std::fs::read_to_string(workspace_root().join("docs/first-workflow.md")).unwrap();
    let world = World::repository();
    let blocks = blocks(&page);
    let named = |block: &Block| block.file.clone().filter(|name| Path::new(name).extension().is_some());
    // Files first: they are what the page tells people to write before they run anything.
    let (mut written, mut commands) = (0, 0);
    for block in &blocks {
        if block.language == "console" {
            for line in block.text.lines().filter_map(|line| line.strip_prefix("$ baton ")) {
                let words = shlex::split(line).unwrap();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let told = world.baton(&words).expect(0);
                if words.contains(&"rehearse") {
                    assert!(told.stderr.contains("refused to writer: write: README.md"), "{told:?}");
                    assert!(git(&world.project(), &["branch", "--list", "baton/*"]).is_empty());
                }
                commands += 1;
            }
        } else {
            world.file(&named(block).unwrap_or_else(|| panic!("no file is named: {}", block.text)), &block.text);
            written += 1;
        }
    }
    assert_eq!((written, commands), (3, 7));
    let branch = git(&world.project(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/baton/"]);
    assert_eq!(git(&world.project(), &["log", "-1", "--format=%s", &branch]), "Notes of 1.2.0");
    assert_eq!(git(&world.project(), &["show", "--name-only", "--format=", &branch]), "NOTES.md");
}
