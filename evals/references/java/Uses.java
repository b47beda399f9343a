// Prints what each identifier of the Java files below a folder means, as javac says (its Tree API): path, line and column
// of the use, and of the definition (an empty path: outside of the folder).
//
//     java evals/references/java/Uses.java ROOT
//
// All files form one compilation without class paths, so what a library says is not known and such places are not printed.
// Annotation processors do not run; nothing of the repository is run.
import com.sun.source.tree.*;
import com.sun.source.util.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import javax.lang.model.element.*;
import javax.lang.model.type.*;
import javax.tools.*;

public class Uses {
    static Path root;
    static Trees trees;
    static final StringBuilder out = new StringBuilder();
    static final Map<Element, String> definitions = new HashMap<>();

    public static void main(String[] given) throws Exception {
        root = Path.of(given[0]).toRealPath();
        List<Path> files;
        try (Stream<Path> walk = Files.walk(root)) {
            files = walk.filter(file -> file.toString().endsWith(".java") && Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
                && !file.endsWith("module-info.java") && !file.endsWith("package-info.java")).sorted().collect(Collectors.toList());
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8);
        JavacTask task = (JavacTask) compiler.getTask(new StringWriter(), manager, diagnostic -> { },
            List.of("-proc:none", "-Xmaxerrs", "1000000", "--should-stop=ifError=FLOW"), null, manager.getJavaFileObjectsFromPaths(files));
        trees = Trees.instance(task);
        List<CompilationUnitTree> units = new ArrayList<>();
        task.parse().forEach(units::add);
        try { task.analyze(); } catch (RuntimeException error) { System.err.println(error); }
        for (CompilationUnitTree unit : units) new Visitor(unit, true).scan(unit, null);
        for (CompilationUnitTree unit : units) new Visitor(unit, false).scan(unit, null);
        PrintStream printed = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        printed.print(out);
        printed.flush();
    }

    static class Visitor extends TreePathScanner<Void, Void> {
        final CompilationUnitTree unit;
        final boolean defines;
        final SourcePositions positions = trees.getSourcePositions();
        final String path;
        final String text;

        Visitor(CompilationUnitTree unit, boolean defines) throws IOException {
            this.unit = unit;
            this.defines = defines;
            path = root.relativize(Path.of(unit.getSourceFile().toUri())).toString();
            text = unit.getSourceFile().getCharContent(true).toString();
        }

        String at(long offset) {
            LineMap lines = unit.getLineMap();
            long line = lines.getLineNumber(offset);
            int start = (int) lines.getStartPosition(line);
            return line + "\t" + (text.codePointCount(start, (int) offset) + 1);
        }

        // Returns where a name is from an offset on; -1 if it is not there.
        int find(String name, long from, long to) {
            for (int at = text.indexOf(name, (int) from); at >= 0 && at < to; at = text.indexOf(name, at + 1)) {
                boolean starts = at == 0 || !Character.isJavaIdentifierPart(text.charAt(at - 1));
                int end = at + name.length();
                if (starts && (end >= text.length() || !Character.isJavaIdentifierPart(text.charAt(end)))) return at;
            }
            return -1;
        }

        void define(Tree tree, String name, Tree before) {
            Element element = trees.getElement(getCurrentPath());
            long from = positions.getStartPosition(unit, tree);
            if (before != null) from = Math.max(from, positions.getEndPosition(unit, before)); // without modifiers: -1
            long to = positions.getEndPosition(unit, tree);
            int place = element == null || from < 0 ? -1 : find(name, from, to);
            if (place >= 0 && defines) definitions.put(element, path + "\t" + at(place));
            if (place >= 0 && !defines) out.append(path + "\t" + at(place) + "\t" + path + "\t" + at(place) + "\n");
        }

        void use(String name, long from, long to) {
            Element element = trees.getElement(getCurrentPath());
            if (defines || element == null || from < 0) return;
            TypeMirror type = element.asType();
            if (type != null && type.getKind() == TypeKind.ERROR) return;
            int place = find(name, from, to);
            if (place < 0) return;
            String target = definitions.get(element);
            if (target == null && element.getKind() == ElementKind.CONSTRUCTOR) target = definitions.get(element.getEnclosingElement());
            out.append(path + "\t" + at(place) + "\t" + (target == null ? "\t0\t0" : target) + "\n");
        }

        @Override public Void visitClass(ClassTree tree, Void none) {
            if (tree.getSimpleName().length() > 0) define(tree, tree.getSimpleName().toString(), tree.getModifiers());
            return super.visitClass(tree, none);
        }

        @Override public Void visitMethod(MethodTree tree, Void none) {
            String name = tree.getName().toString();
            boolean constructs = name.equals("<init>");
            Tree before = tree.getReturnType() != null ? tree.getReturnType() : tree.getModifiers();
            if (constructs) name = trees.getElement(getCurrentPath()).getEnclosingElement().getSimpleName().toString();
            if (positions.getEndPosition(unit, tree) >= 0) define(tree, name, before);
            return super.visitMethod(tree, none);
        }

        @Override public Void visitVariable(VariableTree tree, Void none) {
            Tree type = tree.getType();
            boolean written = type != null && positions.getEndPosition(unit, type) >= 0;
            define(tree, tree.getName().toString(), written ? type : null);
            return super.visitVariable(tree, none);
        }

        @Override public Void visitIdentifier(IdentifierTree tree, Void none) {
            use(tree.getName().toString(), positions.getStartPosition(unit, tree), positions.getEndPosition(unit, tree));
            return super.visitIdentifier(tree, none);
        }

        @Override public Void visitMemberSelect(MemberSelectTree tree, Void none) {
            use(tree.getIdentifier().toString(), positions.getEndPosition(unit, tree.getExpression()), positions.getEndPosition(unit, tree));
            return super.visitMemberSelect(tree, none);
        }

        @Override public Void visitMemberReference(MemberReferenceTree tree, Void none) {
            use(tree.getName().toString(), positions.getEndPosition(unit, tree.getQualifierExpression()), positions.getEndPosition(unit, tree));
            return super.visitMemberReference(tree, none);
        }

        @Override public Void visitImport(ImportTree tree, Void none) {
            if (tree.isStatic() && tree.getQualifiedIdentifier() instanceof MemberSelectTree && !defines) {
                MemberSelectTree select = (MemberSelectTree) tree.getQualifiedIdentifier();
                Element type = trees.getElement(new TreePath(new TreePath(getCurrentPath(), select), select.getExpression()));
                String name = select.getIdentifier().toString();
                int place = find(name, positions.getEndPosition(unit, select.getExpression()), positions.getEndPosition(unit, select));
                for (Element member : type == null ? List.<Element>of() : type.getEnclosedElements()) {
                    String target = definitions.get(member);
                    if (target != null && place >= 0 && member.getSimpleName().contentEquals(name))
                        out.append(path + "\t" + at(place) + "\t" + target + "\n");
                }
            }
            return super.visitImport(tree, none);
        }
    }
}
