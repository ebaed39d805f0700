; reduce_sum: 8 lanes
declare i8 @llvm.cttz.i8(i8, i1)
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, i32, <8 x i1>, <8 x i32>)
declare void @llvm.masked.store.v8i32.p0(<8 x i32>, ptr, i32, <8 x i1>)
declare void @llvm.masked.scatter.v8i32.v8p0(<8 x i32>, <8 x ptr>, i32, <8 x i1>)

define void @"reduce_sum"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load ptr, ptr %s2
  %m0 = alloca [8 x i32], align 64
  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
  %v0 = mul i32 %group32, 8
  %v1 = insertelement <8 x i32> poison, i32 %v0, i64 0
  %v2 = shufflevector <8 x i32> %v1, <8 x i32> poison, <8 x i32> zeroinitializer
  %v3 = add <8 x i32> %v2, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v4 = insertelement <8 x i32> poison, i32 %p0, i64 0
  %v5 = shufflevector <8 x i32> %v4, <8 x i32> poison, <8 x i32> zeroinitializer
  %v6 = icmp ult <8 x i32> %v3, %v5
  %v7 = xor <8 x i1> %v6, splat (i1 true)
  %v10 = bitcast <8 x i1> %v6 to i8
  %v11 = icmp ne i8 %v10, 0
  br i1 %v11, label %run9, label %after10
run9:
  %v12 = bitcast <8 x i1> %v6 to i8
  %v13 = call i8 @llvm.cttz.i8(i8 %v12, i1 true)
  %v14 = zext i8 %v13 to i64
  %v15 = extractelement <8 x i32> %v3, i64 %v14
  %v16 = zext i32 %v15 to i64
  %v17 = sub i64 %v16, %v14
  %v18 = getelementptr i32, ptr %p1, i64 %v17
  %v19 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v18, i32 4, <8 x i1> %v6, <8 x i32> zeroinitializer)
  br label %after10
after10:
  %v20 = phi <8 x i32> [ %v19, %run9 ], [ zeroinitializer, %group ]
  %v23 = bitcast <8 x i1> %v7 to i8
  %v24 = icmp ne i8 %v23, 0
  br i1 %v24, label %run22, label %after23
run22:
  br label %after23
after23:
  %v25 = phi <8 x i32> [ splat (i32 0), %run22 ], [ zeroinitializer, %after10 ]
  %v26 = select <8 x i1> %v6, <8 x i32> %v20, <8 x i32> %v25
  %v27 = zext i32 0 to i64
  %v28 = getelementptr i32, ptr %m0, i64 %v27
  store <8 x i32> %v26, ptr %v28, align 4
  %v29 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 4)
  %v30 = icmp ult <8 x i32> %v29, splat (i32 8)
  %v31 = xor <8 x i1> %v30, splat (i1 true)
  %v34 = bitcast <8 x i1> %v30 to i8
  %v35 = icmp ne i8 %v34, 0
  br i1 %v35, label %run33, label %after34
run33:
  %v36 = bitcast <8 x i1> %v30 to i8
  %v37 = call i8 @llvm.cttz.i8(i8 %v36, i1 true)
  %v38 = zext i8 %v37 to i64
  %v39 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v38
  %v40 = zext i32 %v39 to i64
  %v41 = sub i64 %v40, %v38
  %v42 = getelementptr i32, ptr %m0, i64 %v41
  %v43 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v42, i32 4, <8 x i1> %v30, <8 x i32> zeroinitializer)
  %v44 = bitcast <8 x i1> %v30 to i8
  %v45 = call i8 @llvm.cttz.i8(i8 %v44, i1 true)
  %v46 = zext i8 %v45 to i64
  %v47 = extractelement <8 x i32> %v29, i64 %v46
  %v48 = zext i32 %v47 to i64
  %v49 = sub i64 %v48, %v46
  %v50 = getelementptr i32, ptr %m0, i64 %v49
  %v51 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v50, i32 4, <8 x i1> %v30, <8 x i32> zeroinitializer)
  %v52 = add <8 x i32> %v43, %v51
  %v53 = bitcast <8 x i1> %v30 to i8
  %v54 = call i8 @llvm.cttz.i8(i8 %v53, i1 true)
  %v55 = zext i8 %v54 to i64
  %v56 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v55
  %v57 = zext i32 %v56 to i64
  %v58 = sub i64 %v57, %v55
  %v59 = getelementptr i32, ptr %m0, i64 %v58
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v52, ptr %v59, i32 4, <8 x i1> %v30)
  br label %after34
after34:
  %v60 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 2)
  %v61 = icmp ult <8 x i32> %v60, splat (i32 4)
  %v62 = xor <8 x i1> %v61, splat (i1 true)
  %v65 = bitcast <8 x i1> %v61 to i8
  %v66 = icmp ne i8 %v65, 0
  br i1 %v66, label %run64, label %after65
run64:
  %v67 = bitcast <8 x i1> %v61 to i8
  %v68 = call i8 @llvm.cttz.i8(i8 %v67, i1 true)
  %v69 = zext i8 %v68 to i64
  %v70 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v69
  %v71 = zext i32 %v70 to i64
  %v72 = sub i64 %v71, %v69
  %v73 = getelementptr i32, ptr %m0, i64 %v72
  %v74 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v73, i32 4, <8 x i1> %v61, <8 x i32> zeroinitializer)
  %v75 = bitcast <8 x i1> %v61 to i8
  %v76 = call i8 @llvm.cttz.i8(i8 %v75, i1 true)
  %v77 = zext i8 %v76 to i64
  %v78 = extractelement <8 x i32> %v60, i64 %v77
  %v79 = zext i32 %v78 to i64
  %v80 = sub i64 %v79, %v77
  %v81 = getelementptr i32, ptr %m0, i64 %v80
  %v82 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v81, i32 4, <8 x i1> %v61, <8 x i32> zeroinitializer)
  %v83 = add <8 x i32> %v74, %v82
  %v84 = bitcast <8 x i1> %v61 to i8
  %v85 = call i8 @llvm.cttz.i8(i8 %v84, i1 true)
  %v86 = zext i8 %v85 to i64
  %v87 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v86
  %v88 = zext i32 %v87 to i64
  %v89 = sub i64 %v88, %v86
  %v90 = getelementptr i32, ptr %m0, i64 %v89
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v83, ptr %v90, i32 4, <8 x i1> %v61)
  br label %after65
after65:
  %v91 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 1)
  %v92 = icmp ult <8 x i32> %v91, splat (i32 2)
  %v93 = xor <8 x i1> %v92, splat (i1 true)
  %v96 = bitcast <8 x i1> %v92 to i8
  %v97 = icmp ne i8 %v96, 0
  br i1 %v97, label %run95, label %after96
run95:
  %v98 = bitcast <8 x i1> %v92 to i8
  %v99 = call i8 @llvm.cttz.i8(i8 %v98, i1 true)
  %v100 = zext i8 %v99 to i64
  %v101 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v100
  %v102 = zext i32 %v101 to i64
  %v103 = sub i64 %v102, %v100
  %v104 = getelementptr i32, ptr %m0, i64 %v103
  %v105 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v104, i32 4, <8 x i1> %v92, <8 x i32> zeroinitializer)
  %v106 = bitcast <8 x i1> %v92 to i8
  %v107 = call i8 @llvm.cttz.i8(i8 %v106, i1 true)
  %v108 = zext i8 %v107 to i64
  %v109 = extractelement <8 x i32> %v91, i64 %v108
  %v110 = zext i32 %v109 to i64
  %v111 = sub i64 %v110, %v108
  %v112 = getelementptr i32, ptr %m0, i64 %v111
  %v113 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v112, i32 4, <8 x i1> %v92, <8 x i32> zeroinitializer)
  %v114 = add <8 x i32> %v105, %v113
  %v115 = bitcast <8 x i1> %v92 to i8
  %v116 = call i8 @llvm.cttz.i8(i8 %v115, i1 true)
  %v117 = zext i8 %v116 to i64
  %v118 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v117
  %v119 = zext i32 %v118 to i64
  %v120 = sub i64 %v119, %v117
  %v121 = getelementptr i32, ptr %m0, i64 %v120
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v114, ptr %v121, i32 4, <8 x i1> %v92)
  br label %after96
after96:
  %v122 = icmp eq <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 0)
  %v123 = xor <8 x i1> %v122, splat (i1 true)
  %v126 = bitcast <8 x i1> %v122 to i8
  %v127 = icmp ne i8 %v126, 0
  br i1 %v127, label %run125, label %after126
run125:
  %v128 = bitcast <8 x i1> %v122 to i8
  %v129 = call i8 @llvm.cttz.i8(i8 %v128, i1 true)
  %v130 = zext i8 %v129 to i64
  %v131 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v130
  %v132 = zext i32 %v131 to i64
  %v133 = sub i64 %v132, %v130
  %v134 = getelementptr i32, ptr %m0, i64 %v133
  %v135 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v134, i32 4, <8 x i1> %v122, <8 x i32> zeroinitializer)
  %v136 = zext i32 %group32 to i64
  %v137 = getelementptr i32, ptr %p2, i64 %v136
  %v138 = insertelement <8 x ptr> poison, ptr %v137, i64 0
  %v139 = shufflevector <8 x ptr> %v138, <8 x ptr> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %v135, <8 x ptr> %v139, i32 4, <8 x i1> %v122)
  br label %after126
after126:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
