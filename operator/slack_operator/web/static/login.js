// The form works without this; it only says that the last token was wrong.
document.getElementById("wrong").hidden = !location.search.startsWith("?wrong");
