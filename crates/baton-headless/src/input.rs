//! What the person says to `exec`: words, standard input, files named by `@path`, pictures.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_core::{Block, Fault, Image};
use tokio::sync::mpsc;

/// The most that is taken from standard input or one file.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long a pipe beside a prompt may stay without a first byte: some callers leave one open forever.
const FIRST_BYTE_LIMIT: Duration = Duration::from_secs(3);

/// What was given on the command line.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The prompt; `-` is standard input.
    pub prompt: Option<String>,
    /// Files of pictures.
    pub images: Vec<PathBuf>,
    /// Where relative paths start.
    pub cwd: PathBuf,
}

/// Gathers everything into the blocks of one message; also what the person should be told.
pub async fn gather(input: Input) -> Result<(Vec<Block>, Option<String>), Fault> {
    let mut notice = None;
    let mut blocks = Vec::new();
    match input.prompt.as_deref() {
        None | Some("-") if io::stdin().is_terminal() => {
            return Err(Fault::input("there is no prompt").hint("write `baton exec \"what to do\"`, or pipe it in"));
        }
        None | Some("-") => blocks.push(Block::text(read_stdin(Patience::Endless).await?.unwrap_or_default())),
        Some(prompt) => {
            let (prompt, cwd) = (prompt.to_owned(), input.cwd.clone());
            blocks.extend(blocking(move || with_files(&prompt, &cwd)).await?);
            if !io::stdin().is_terminal() {
                match read_stdin(Patience::Short).await? {
                    Some(text) if !text.trim().is_empty() => {
                        blocks.push(Block::text(format!("<stdin>\n{text}\n</stdin>")));
                    }
                    Some(_) => {}
                    None => notice = Some("standard input stayed empty for 3 s and is ignored".to_owned()),
                }
            }
        }
    }
    for image in &input.images {
        let path = input.cwd.join(image);
        let found = blocking(move || {
            let no_picture = || Fault::input(format!("{} is no picture that models take", path.display()));
            read_image(&path)?.ok_or_else(no_picture)
        });
        blocks.push(found.await?);
    }
    let is_empty = blocks.iter().all(|block| matches!(block, Block::Text { text } if text.trim().is_empty()));
    if is_empty {
        return Err(Fault::input("the prompt is empty").hint("write `baton exec \"what to do\"`"));
    }
    Ok((blocks, notice))
}

/// Reads files off the async thread, so that a signal is heard while a file system hangs.
async fn blocking<T: Send + 'static>(read: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(Fault::internal(error.to_string())))
}

enum Patience {
    Endless,
    Short,
}

/// Reads standard input to its end; `None` if nothing came in time.
async fn read_stdin(patience: Patience) -> Result<Option<String>, Fault> {
    let (sender, mut chunks) = mpsc::channel::<io::Result<Vec<u8>>>(1);
    // A thread of its own: it may block forever, and the process ends without it.
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; 64 * 1024];
            let read = stdin.read(&mut chunk).map(|n| {
                chunk.truncate(n);
                chunk
            });
            let is_end = !matches!(&read, Ok(bytes) if !bytes.is_empty());
            if sender.blocking_send(read).is_err() || is_end {
                return;
            }
        }
    });
    let mut bytes = Vec::new();
    loop {
        let next = match patience {
            Patience::Short if bytes.is_empty() => match tokio::time::timeout(FIRST_BYTE_LIMIT, chunks.recv()).await {
                Ok(next) => next,
                Err(_) => return Ok(None),
            },
            _ => chunks.recv().await,
        };
        match next {
            Some(Ok(chunk)) if !chunk.is_empty() => bytes.extend(chunk),
            Some(Err(error)) => return Err(Fault::input(format!("cannot read standard input: {error}"))),
            Some(Ok(_)) | None => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        }
        if bytes.len() as u64 > BYTES_MAX {
            return Err(too_large("standard input"));
        }
    }
}

/// The prompt, and the files it names by `@path`. A prompt that is nothing but `@path` is the file itself.
fn with_files(prompt: &str, cwd: &Path) -> Result<Vec<Block>, Fault> {
    if let Some(path) = prompt.strip_prefix('@').filter(|path| !path.is_empty() && !path.contains(char::is_whitespace))
    {
        return Ok(vec![match read_file(&cwd.join(path))? {
            Attachment::Text(text) => Block::text(text),
            Attachment::Image(image) => image,
        }]);
    }
    let mut blocks = vec![Block::text(prompt)];
    for word in prompt.split_whitespace() {
        let Some(path) = word.strip_prefix('@') else { continue };
        // `@src/main.rs,` at the end of a phrase means the file without the comma.
        let path = path.trim_end_matches([',', '.', ';', ':', ')', '?', '!']);
        let file = cwd.join(path);
        if path.is_empty() || !file.is_file() {
            continue;
        }
        blocks.push(match read_file(&file)? {
            Attachment::Text(text) => Block::text(format!("<file path=\"{path}\">\n{text}\n</file>")),
            Attachment::Image(image) => image,
        });
    }
    Ok(blocks)
}

enum Attachment {
    Text(String),
    Image(Block),
}

fn read_file(file: &Path) -> Result<Attachment, Fault> {
    if let Some(image) = read_image(file)? {
        return Ok(Attachment::Image(image));
    }
    let bytes = read_bounded(file, BYTES_MAX)?;
    Ok(Attachment::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A picture, if the file begins like one.
fn read_image(file: &Path) -> Result<Option<Block>, Fault> {
    let mut start = Vec::new();
    open(file)?.take(16).read_to_end(&mut start).map_err(|error| unreadable(file, &error))?;
    if baton_tools::image_type(&start).is_none() {
        return Ok(None);
    }
    let bytes = read_bounded(file, baton_tools::IMAGE_BYTES_MAX)?;
    let media_type = baton_tools::check_image(&bytes)
        .map_err(|why| Fault::input(format!("{}: {why}", file.display())).hint("scale it down"))?;
    Ok(Some(Block::Image(Image { media_type: media_type.to_owned(), data: STANDARD.encode(bytes) })))
}

fn read_bounded(file: &Path, max: u64) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    open(file)?.take(max + 1).read_to_end(&mut bytes).map_err(|error| unreadable(file, &error))?;
    if bytes.len() as u64 > max { Err(too_large(&file.display().to_string())) } else { Ok(bytes) }
}

fn open(file: &Path) -> Result<std::fs::File, Fault> {
    let is_file = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.is_file();
    if !is_file {
        return Err(Fault::input(format!("{} is not a file", file.display())));
    }
    std::fs::File::open(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &io::Error) -> Fault {
    Fault::input(format!("cannot read {}: {error}", file.display()))
}

fn too_large(what: &str) -> Fault {
    Fault::input(format!("{what} is too large for a prompt")).hint("give the agent the path: it reads what it needs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_named_in_the_prompt_come_with_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "AAA").unwrap();
        std::fs::write(dir.path().join("p.png"), b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x02").unwrap();
        let blocks = with_files("compare @a.txt, with @p.png and mail me@home @nothing", dir.path()).unwrap();
        assert_eq!(blocks.len(), 3);
        assert_eq!(blocks[1], Block::text("<file path=\"a.txt\">\nAAA\n</file>"));
        assert!(matches!(&blocks[2], Block::Image(image) if image.media_type == "image/png"));
        assert_eq!(with_files("@a.txt", dir.path()).unwrap(), [Block::text("AAA")]);
        assert!(with_files("@nothing", dir.path()).unwrap_err().message.contains("nothing"));
    }
}
