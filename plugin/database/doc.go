// Package database has what is around the file of the database: it opens it, sees to the room on its disk ([Disk]), and tells of files that
// another one left beside it ([Aside], [Former]). It also knows which errors of it may pass ([Passes]).
//
// It refuses to know what is in the database; that is the node's, and its format is persist's.
package database
