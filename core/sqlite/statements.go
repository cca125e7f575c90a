package sqlite

// statement is the number of a statement that each connection keeps prepared.
type statement int

// The statements.
const (
	begin statement = iota
	beginWrite
	commit
	rollback

	selectState
	updateState

	selectBucket
	selectBucketByID
	selectBuckets
	insertBucket
	updateBucket
	deleteBucket
	anyObject
	anyHistory
	anyUpload
	deleteRecords

	selectObject
	insertObject
	upsertObject
	deleteObject
	listObjects
	listBriefs
	updateBrief
	listObject

	selectNewest
	selectVersion
	selectNull
	insertHistory
	deleteHistory
	listHistory
	listOlder

	sourceInObjects
	sourceInHistory

	selectInfo
	insertInfo
	updateInfo
	deleteInfo

	selectData
	hasData
	insertData
	incDataRef
	deleteLastRef
	decDataRef
	updateData
	updateBorn
	restoreData
	addRefs
	selectDataFrom

	selectRuns
	upsertRun
	deleteRun
	selectHash
	selectNextPage
	selectPages
	selectLastPage
	insertPage
	deletePages
	selectUpto
	updateUpto
	selectLate
	insertLate
	deleteLate

	selectUpload
	insertUpload
	deleteUpload
	listUploads
	listLaterUploads

	selectPart
	selectParts
	selectPartSizes
	anyPart
	upsertPart
	deletePart

	hasList
	insertList
	incListRef
	deleteLastListRef
	decListRef
	restoreList

	insertGarbage
	selectGarbage
	selectGarbageList
	deleteGarbage
	deleteGarbageList

	selectRecord
	selectRecords
	upsertRecord
	deleteRecord

	selectTally
	selectTallies
	upsertTally
	deleteTally

	selectBlock
	upsertBlock
	deleteBlock

	numStatements
)

// The common clauses of statements that read a version. versionColumns are seq, nullver, and data, then the columns of
// the content that was written with the version.
const (
	versionColumns = "v.seq, v.nullver, v.data, d.refs, d.sha256, d.info, d.object"
	ofObjects      = " FROM objects v LEFT JOIN data d ON d.id = v.data WHERE v.bucket = ?1 AND "
	ofHistory      = " FROM history v LEFT JOIN data d ON d.id = v.data WHERE v.bucket = ?1 AND "
	listColumns    = "v.key, v.seq, v.data, d.object"
)

// statementSQL is the text of each statement. None of them sorts, and none reads rows that it does not return; a test
// checks their query plans.
var statementSQL = [numStatements]string{
	begin:      "BEGIN",
	beginWrite: "BEGIN IMMEDIATE",
	commit:     "COMMIT",
	rollback:   "ROLLBACK",

	selectState: "SELECT seq, next_data, floor FROM state WHERE id = 1",
	updateState: "UPDATE state SET seq = ?, next_data = ?, floor = ? WHERE id = 1",

	selectBucket:     "SELECT id, info FROM buckets WHERE name = ?",
	selectBucketByID: "SELECT name, info FROM buckets WHERE id = ?",
	selectBuckets:    "SELECT id, name, info FROM buckets WHERE name >= ? ORDER BY name",
	insertBucket:     "INSERT INTO buckets VALUES (?, ?, ?)",
	updateBucket:     "UPDATE buckets SET info = ?2 WHERE id = ?1",
	deleteBucket:     "DELETE FROM buckets WHERE id = ?",
	anyObject:        "SELECT 1 FROM objects WHERE bucket = ? LIMIT 1",
	anyHistory:       "SELECT 1 FROM history WHERE bucket = ? LIMIT 1",
	anyUpload:        "SELECT 1 FROM uploads WHERE bucket = ? LIMIT 1",
	deleteRecords:    "DELETE FROM records WHERE kind = ?",

	selectObject: "SELECT " + versionColumns + ofObjects + "v.key = ?2",
	insertObject: "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
	upsertObject: "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET " +
		"seq = excluded.seq, nullver = excluded.nullver, data = excluded.data, brief = excluded.brief",
	deleteObject: "DELETE FROM objects WHERE bucket = ? AND key = ?",
	listObjects:  "SELECT " + listColumns + ofObjects + "v.key >= ?2 ORDER BY v.key",
	listBriefs:   "SELECT key, seq, nullver, data, brief FROM objects WHERE bucket = ?1 AND key >= ?2 ORDER BY key",
	updateBrief:  "UPDATE objects SET brief = ?3 WHERE bucket = ?1 AND key = ?2",
	listObject:   "SELECT " + listColumns + ofObjects + "v.key = ?2 AND v.seq < ?3",

	selectNewest:  "SELECT " + versionColumns + ofHistory + "v.key = ?2 ORDER BY v.seq DESC LIMIT 1",
	selectVersion: "SELECT " + versionColumns + ofHistory + "v.key = ?2 AND v.seq = ?3",
	selectNull:    "SELECT " + versionColumns + ofHistory + "v.key = ?2 AND v.nullver = 1",
	insertHistory: "INSERT INTO history VALUES (?, ?, ?, ?, ?)",
	deleteHistory: "DELETE FROM history WHERE bucket = ? AND key = ? AND seq = ?",
	listHistory:   "SELECT " + listColumns + ofHistory + "v.key >= ?2 ORDER BY v.key, v.seq DESC",
	listOlder:     "SELECT " + listColumns + ofHistory + "v.key = ?2 AND v.seq < ?3 ORDER BY v.seq DESC",

	sourceInObjects: "SELECT 1 FROM objects WHERE bucket = ? AND key = ? AND seq = ?",
	sourceInHistory: "SELECT 1 FROM history WHERE bucket = ? AND key = ? AND seq = ?",

	selectInfo: "SELECT info FROM infos WHERE seq = ?",
	insertInfo: "INSERT INTO infos VALUES (?, ?)",
	updateInfo: "UPDATE infos SET info = ?2 WHERE seq = ?1",
	deleteInfo: "DELETE FROM infos WHERE seq = ?",

	selectData:    "SELECT refs, sha256, info FROM data WHERE id = ?",
	hasData:       "SELECT 1 FROM data WHERE id = ?",
	insertData:    "INSERT INTO data VALUES (?, 1, ?, ?, ?) ON CONFLICT DO NOTHING",
	incDataRef:    "UPDATE data SET refs = refs + 1 WHERE id = ?",
	deleteLastRef: "DELETE FROM data WHERE id = ? AND refs = 1",
	updateData:    "UPDATE data SET info = ?2 WHERE id = ?1",
	updateBorn:    "UPDATE data SET object = ?2 WHERE id = ?1",
	decDataRef:    "UPDATE data SET refs = refs - 1, object = iif(?2, NULL, object) WHERE id = ?1",
	restoreData:   "INSERT INTO data VALUES (?, 0, ?, ?, NULL)",
	addRefs:       "UPDATE data SET refs = refs + ?2 WHERE id = ?1",

	selectDataFrom: "SELECT id, refs, sha256, info FROM data WHERE id >= ? ORDER BY id",

	selectRuns: "SELECT id, info FROM hash_runs WHERE id > ? ORDER BY id",
	upsertRun:  "INSERT INTO hash_runs VALUES (?, ?) ON CONFLICT DO UPDATE SET info = excluded.info",
	deleteRun:  "DELETE FROM hash_runs WHERE id = ?",
	// In each run, the first page whose last pair may have the hash or a higher one. The arguments are hashPrefix(hash),
	// the highest number of a page within its run, and pageBits.
	selectHash: "SELECT p.id, p.pairs FROM hash_runs r CROSS JOIN hash_pages p ON p.id = (SELECT id FROM hash_pages WHERE " +
		"id BETWEEN (r.id << ?3) + ?1 AND (r.id << ?3) + ?2 ORDER BY id LIMIT 1) WHERE r.id > 0 ORDER BY r.id",
	selectNextPage: "SELECT id, pairs FROM hash_pages WHERE id > ? AND id <= ? ORDER BY id LIMIT 1",
	selectPages:    "SELECT id, pairs FROM hash_pages WHERE id > ? ORDER BY id LIMIT ?",
	selectLastPage: "SELECT id FROM hash_pages WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
	insertPage:     "INSERT OR REPLACE INTO hash_pages VALUES (?, ?)", // if the row of a run was damaged, its pages are left
	deletePages:    "DELETE FROM hash_pages WHERE id BETWEEN ? AND ?",
	selectUpto:     "SELECT data FROM hash_upto WHERE id = 1",
	updateUpto:     "UPDATE hash_upto SET data = ? WHERE id = 1",
	selectLate:     "SELECT id, data FROM hash_late ORDER BY id",
	insertLate:     "INSERT INTO hash_late VALUES (?, ?)",
	deleteLate:     "DELETE FROM hash_late WHERE id < ?",

	selectUpload:     "SELECT info FROM uploads WHERE bucket = ? AND key = ? AND id = ?",
	insertUpload:     "INSERT INTO uploads VALUES (?, ?, ?, ?)",
	deleteUpload:     "DELETE FROM uploads WHERE bucket = ? AND key = ? AND id = ?",
	listUploads:      "SELECT key, id, info FROM uploads WHERE bucket = ? AND key >= ? ORDER BY key, id",
	listLaterUploads: "SELECT key, id, info FROM uploads WHERE bucket = ? AND key = ? AND id > ? ORDER BY id",

	selectPart:      "SELECT seq, info FROM parts WHERE list = ? AND number = ?",
	selectParts:     "SELECT number, seq, info FROM parts WHERE list = ? AND number > ? ORDER BY number LIMIT ?",
	selectPartSizes: "SELECT number, seq, info FROM parts WHERE list = ? ORDER BY number",
	anyPart:         "SELECT 1 FROM parts WHERE list = ? LIMIT 1",
	upsertPart: "INSERT INTO parts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET " +
		"seq = excluded.seq, info = excluded.info",
	deletePart: "DELETE FROM parts WHERE list = ? AND number = ?",

	hasList:           "SELECT 1 FROM lists WHERE id = ?",
	insertList:        "INSERT INTO lists VALUES (?, 1)",
	incListRef:        "UPDATE lists SET refs = refs + 1 WHERE id = ?",
	deleteLastListRef: "DELETE FROM lists WHERE id = ? AND refs = 1",
	decListRef:        "UPDATE lists SET refs = refs - 1 WHERE id = ?",
	restoreList:       "INSERT INTO lists VALUES (?, 1) ON CONFLICT DO UPDATE SET refs = refs + 1",

	insertGarbage:     "INSERT INTO garbage VALUES (?, ?, ?)",
	selectGarbageList: "SELECT list FROM garbage WHERE id = ? AND list <> 0",
	deleteGarbage:     "DELETE FROM garbage WHERE id = ? AND list = 0",
	deleteGarbageList: "DELETE FROM garbage WHERE id = ?",
	selectGarbage:     "SELECT id, list, extents FROM garbage WHERE id > ? ORDER BY id LIMIT ?",

	selectRecord:  "SELECT value FROM records WHERE kind = ? AND key = ?",
	selectRecords: "SELECT key, value FROM records WHERE kind = ? AND key > ? ORDER BY key LIMIT ?",
	upsertRecord:  "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
	deleteRecord:  "DELETE FROM records WHERE kind = ? AND key = ?",

	selectTally:   "SELECT info FROM tallies WHERE bucket = ?",
	selectTallies: "SELECT b.id, t.info FROM buckets b LEFT JOIN tallies t ON t.bucket = b.id WHERE b.id > ? ORDER BY b.id LIMIT ?",
	upsertTally:   "INSERT INTO tallies VALUES (?, ?) ON CONFLICT DO UPDATE SET info = excluded.info",
	deleteTally:   "DELETE FROM tallies WHERE bucket = ?",

	selectBlock: "SELECT contents, bytes, seal FROM blocks WHERE id = ?",
	upsertBlock: "INSERT INTO blocks VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET " +
		"contents = excluded.contents, bytes = excluded.bytes, seal = excluded.seal",
	deleteBlock: "DELETE FROM blocks WHERE id = ?",
}
