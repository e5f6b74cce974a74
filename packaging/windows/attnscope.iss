; Inno Setup: the bundle as an installer for one person, without administrator's rights. Not yet tried.
; iscc /DVersion=VERSION packaging\windows\attnscope.iss, which `python packaging/build.py windows` runs

#ifndef Version
  #error Give the version: iscc /DVersion=...
#endif

[Setup]
AppId={{6C7B6C0E-6E0B-4C0C-9E1B-5C1C2F6B7A11}
AppName=AttnScope
AppVersion={#Version}
AppPublisher=The AttnScope authors
DefaultDirName={autopf}\AttnScope
DefaultGroupName=AttnScope
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
ChangesAssociations=yes
ChangesEnvironment=yes
Compression=lzma2/max
SolidCompression=yes
LicenseFile=..\..\LICENSE
OutputBaseFilename=AttnScope-{#Version}-windows-x86_64
SetupIconFile=..\..\build\icons\attnscope.ico
UninstallDisplayIcon={app}\attnscopew.exe

[Tasks]
Name: "desktopicon"; Description: "A link on the desktop"; Flags: unchecked
Name: "path"; Description: "The command attnscope in every terminal"; Flags: unchecked

[Files]
Source: "..\..\build\bundle\attnscope\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs

[Icons]
Name: "{group}\AttnScope"; Filename: "{app}\attnscopew.exe"
Name: "{userdesktop}\AttnScope"; Filename: "{app}\attnscopew.exe"; Tasks: desktopicon

[Registry]
Root: HKA; Subkey: "Software\Classes\.attnscope"; ValueType: string; ValueData: "AttnScope.Session"; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\AttnScope.Session"; ValueType: string; ValueData: "AttnScope session"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\AttnScope.Session\DefaultIcon"; ValueType: string; ValueData: "{app}\attnscopew.exe,0"
Root: HKA; Subkey: "Software\Classes\AttnScope.Session\shell\open\command"; ValueType: string; ValueData: """{app}\attnscopew.exe"" open ""%1"""
Root: HKCU; Subkey: "Environment"; ValueType: expandsz; ValueName: "Path"; ValueData: "{olddata};{app}"; Tasks: path; Check: IsPathNew

[Code]
function IsPathNew: Boolean;
var
  Before: String;
begin
  if not RegQueryStringValue(HKCU, 'Environment', 'Path', Before) then
    Before := '';
  Result := Pos(';' + Uppercase(ExpandConstant('{app}')) + ';', ';' + Uppercase(Before) + ';') = 0;
end;
