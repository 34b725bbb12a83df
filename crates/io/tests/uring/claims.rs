//! Who may open what: locks, kinds of files, and files to be made.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use io::uring::{Access, OpenError, UringDrive, UringEnv, create_file};
use io::{Buf, Drive, DriveErrorKind, Durability};

use crate::support::{TempDir, argument, in_child, open_soon};

fn open(env: &UringEnv, path: &Path) -> Result<UringDrive, OpenError> {
    UringDrive::open(env, path, Access::ReadWrite)
}

#[test]
fn a_file_is_claimed_by_one_drive() {
    let (env, dir) = (UringEnv::new().unwrap(), TempDir::new());
    let drive = dir.drive(&env, 1 << 20);
    let path = dir.join("drive");
    let error = open(&env, &path).err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()));
    drop(drive.clone());
    assert!(open(&env, &path).is_err(), "a clone that goes does not give up the claim");
    drop(drive);
    open_soon(&env, &path);
}

#[test]
fn a_file_is_claimed_against_other_processes() {
    let (env, dir) = (UringEnv::new().unwrap(), TempDir::new());
    let drive = dir.drive(&env, 1 << 20);
    let child = || {
        let output = in_child("claims::child_opens", &dir.join("drive")).wait_with_output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let told = child();
    assert!(told.contains("in use by another process"), "{told}");
    assert!(told.contains("inspected 1048576 bytes"), "{told}");
    drop(drive);
    let claimed = (0..100).any(|_| child().contains("claimed it"));
    assert!(claimed, "it was given up");
}

/// The other process of the test above; on its own it does nothing.
#[test]
fn child_opens() {
    let Some(path) = argument() else { return };
    let env = UringEnv::new().unwrap();
    match open(&env, &path) {
        Ok(_) => println!("claimed it"),
        Err(error) => println!("{error}"),
    }
    let drive = UringDrive::open(&env, &path, Access::ReadOnly).unwrap();
    println!("inspected {} bytes", drive.geometry().size);
}

#[test]
fn inspection_works_beside_a_user_and_writes_nothing() {
    let (env, dir) = (UringEnv::new().unwrap(), TempDir::new());
    let drive = dir.drive(&env, 1 << 20);
    let inspected = UringDrive::open(&env, dir.join("drive"), Access::ReadOnly).unwrap();
    let data = Buf::from_slice(&[7; 4096]);
    env.block_on(drive.write(0, data.clone(), Durability::Cached)).unwrap();
    assert!(env.block_on(inspected.read(0, 4096)).unwrap()[..] == data[..]);
    let error = env.block_on(inspected.write(0, data, Durability::Cached)).unwrap_err();
    assert_eq!(error.kind, DriveErrorKind::Os(libc::EBADF));
}

#[test]
fn what_is_no_drive_is_refused_by_its_kind() {
    let (env, dir) = (UringEnv::new().unwrap(), TempDir::new());
    let _listener = UnixListener::bind(dir.join("socket")).unwrap();
    let cases = [
        (dir.join("socket"), "socket"),
        (dir.join(""), "directory"),
        (Path::new("/dev/null").to_path_buf(), "character device"),
        (dir.join("absent"), "no such file"),
        (dir.join("socket/below"), "no such file"),
    ];
    for (path, expected) in cases {
        let text = open(&env, &path).err().unwrap().to_string();
        assert!(text.contains(expected) && text.contains(path.to_str().unwrap()), "{text}");
    }
}

#[test]
fn a_new_file_has_its_space_and_replaces_nothing() {
    use std::os::unix::fs::MetadataExt;
    let dir = TempDir::new();
    let path = dir.join("new");
    create_file(&path, 1 << 20).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 1 << 20);
    assert!(metadata.blocks() * 512 >= 1 << 20);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let error = create_file(&path, 4096).unwrap_err();
    assert!(matches!(error, OpenError::Exists { .. }), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}
